/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared by the thp selftests: a KTAP runner that gives each test its own
 * process, memory cgroup and time limit; access to the kernel's knobs and
 * counters; and memory whose every byte is known.
 */
#ifndef THP_UTIL_H
#define THP_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdnoreturn.h>
#include <stdint.h>
#include <sys/types.h>

#define KB		1024UL
#define MB		(1024 * KB)
#define PAGE_SIZE	(4 * KB)
#define THP_SIZE	(2 * MB)
#define THP_PAGES	512

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE	25
#endif

/* A threshold used in production, and live pages on both sides of it. */
#define USUAL_THRESHOLD	409
#define SPARSE		10
#define DENSE		300

/* What a test program itself may have in swap when its cgroup is reclaimed. */
#define OTHER_PAGES	64

#define SCANNED		"thp_underused_scan_page"
#define SPLIT		"thp_underused_split_page"
#define DROPPED		"thp_zero_subpages_dropped"

#define ARRAY_SIZE(x)	(sizeof(x) / sizeof((x)[0]))

/*
 * The shared files, each of which calls only those before it: thp_base.c,
 * thp_sysfs.c, thp_memory.c, thp_blocks.c, thp_run.c.
 */

/* --- thp_base.c: verdicts, helper processes, the kernel log, the processor --- */

/* Exit codes, as kselftest knows them. */
enum { PASS = 0, FAIL = 1, SKIP = 4 };

/* Why the first process of a test that ended it did so. */
#define REASON_SIZE	256
extern char *reason;

/* A test passes by returning. fail() and skip() end it from any process. */
[[gnu::format(printf, 1, 2)]]
noreturn void fail(const char *fmt, ...);
[[gnu::format(printf, 1, 2)]]
noreturn void skip(const char *fmt, ...);
[[gnu::format(printf, 1, 2)]]
void note(const char *fmt, ...);

#define expect(condition, ...)			\
	do {					\
		if (!(condition))		\
			fail(__VA_ARGS__);	\
	} while (0)

pid_t helper_start(void (*run)(void *arg), void *arg);
void helper_join(pid_t pid);
void tell(int fd);
void hear(int fd);
int log_open(void);
bool log_line(int fd, char *line, size_t size);
double now(void);
double patience(double seconds);
void stay_on_cpu(int cpu);
void touch(char *address);

/* --- thp_sysfs.c: knobs, counters, cgroups and triggers --- */

#define DEFERRED_SCAN_ALL	100000

int file_write(const char *path, const char *text);
int file_read(const char *path, char *text, size_t size);

void knobs_save(void);
void knobs_set_base(void);
void knobs_restore(void);
void khugepaged_hold(void);
bool knob_exists(const char *name);
int knob_write(const char *name, const char *value);
void knob_read(const char *name, char *value, size_t size);
void knob_set(const char *name, const char *value);
void knob_set_number(const char *name, long value);
void set_threshold(long max_zero_pages);

long counter(const char *name);
void vmstat_refresh(void);
void expect_none_isolated(double seconds);

bool cgroup_is_v1(void);
void cgroup_create(void);
void cgroup_remove(void);
void cgroup_enter(void);
int cgroup_write(const char *file, const char *value);
void cgroup_set(const char *file, const char *value);
long cgroup_number(const char *file);
long cgroup_event(const char *file, const char *key);
void cgroup_make(const char *name);
void cgroup_go(const char *name);
int cgroup_rmdir(const char *name);

long queue_count(void);
long queue_count_in(const char *cgroup);
long queue_count_at(const char *path);
void expect_queued(long want);
void queue_scan(long nr);
void queue_scan_in(const char *cgroup, long nr);
void queue_scan_node(int node, long nr);
void trigger(void);
void end_wait(void);
void split_range(pid_t pid, const void *start, size_t length);
void poison_clear(unsigned long pfn);

#define SWAP_SIZE	(256 * MB)

bool swap_format(const char *device);
void swap_on(void);
void swap_off(void);
bool swap_start(void);
bool swap_stop(void);
void need_swap(void);
void disk_on(void);
void disk_off(void);
const char *disk_device(void);
void cache_fill(size_t size);

void trace_on(const char *event, bool this_process);
void trace_filter(const char *event, const char *filter);
void trace_clear(void);
void trace_stop(void);
void trace_off(void);
int trace_lines(const char *text, const char *more);
void trace_stacks(void);

struct trace_events {
	int by_names, by_others;
};

struct trace_events trace_events(const char *text, const char *const *names);

/* --- thp_memory.c: memory whose every byte is known --- */

/* Where a 4K page has bytes that are not zero. */
enum live { ZERO, FIRST_BYTE, MIDDLE_BYTE, LAST_BYTE, WHOLE, GONE };

struct area {
	char *base;
	uintptr_t origin;	/* base when filled: mremap changes base */
	int thps;
	unsigned char *live;		/* enum live of each 4K page */
};

struct area area_map(int thps);
void area_choose(struct area *area, int thp, int live_pages, enum live how);
void area_fill(struct area *area);
void area_fill_any(struct area *area);
void area_fill_small(struct area *area);
struct area area_alloc(int thps, int live_pages);
void area_free(struct area *area);
void area_verify_page(const struct area *area, int page);
void area_verify(const struct area *area);
void area_write(struct area *area, int page, enum live live);
void area_drop_page(struct area *area, int page);
char *area_page(const struct area *area, int page);
size_t area_size(const struct area *area);
int area_zero_pages(const struct area *area);
int area_live_pages(const struct area *area);
char *area_thp(const struct area *area, int thp);

long smaps_kb(const char *field, const void *start, size_t length);
long area_huge(const struct area *area);
long area_rss_pages(const struct area *area);

/* A pipe that holds a reference to a page of this process. */
struct pin {
	int fds[2];
};

struct pin pin_page(char *page);
void unpin(struct pin pin);

int uffd_open(const struct area *area, unsigned long features,
	      unsigned long mode);

/* Bits of a pagemap entry. */
enum { PM_SOFT_DIRTY = 55, PM_UFFD_WP = 57, PM_SWAP = 62, PM_PRESENT = 63 };

bool page_has(const void *address, int bit);
unsigned long pfn_of(const void *address);
bool is_zeropage(const void *address);
bool is_compound(const void *address);
void area_expect_remapped(const struct area *area);
void area_expect_kept(const struct area *area);
void expect_split(const struct area *area);
void expect_whole(const struct area *area, const char *what);
int area_whole(const struct area *area);
void area_make_partial(struct area *area);
int node_of(void *page);
int other_node(void *page);
void prefer_node(int node);
void bind_to_node(int node);
void use_any_node(void);
void area_map_by_ptes(struct area *area);
void area_migrate(struct area *area);
long swap_slot_of(const void *address);
void area_pageout(const struct area *area);
void area_swap_out(const struct area *area);

/* --- thp_blocks.c: free memory, in whole blocks or in pieces, for defrag mode --- */

#define DEFRAG_MODE	"/proc/sys/vm/defrag_mode"
#define MOVE_LOCKED	"/proc/sys/vm/compact_unevictable_allowed"

/* Reclaim can have so much of the memory that is in pieces. */
#define RECLAIMABLE	(64 * MB)

struct mapping {
	char *memory;
	size_t size;
};

void settings_save(void);
void settings_restore(void);
void file_set(const char *path, const char *value);

long meminfo(const char *name);
long zoneinfo(const char *name);
long in_large_buddies(void);
long movable_free(void);
void note_free(void);
void watch_for_leaks(void);
void expect_no_leak(void);

void need_all_memory(void);
char *fill_memory(size_t *size);
struct mapping take_to_pieces(void);
void lock_in_place(struct mapping pieces);
void fill_pipes(long size);
void halve_pipes(void);
void trace_mixing(void);
int mixed(void);
void trace_mixing_for(int order);
int mixed_by(const char *function);
void exhaust_kind(void);
void occupy_kcompactd(void);
void trace_kcompactd(const char *event);

/* --- thp_run.c: runs the tests, each in a process of its own --- */

struct test {
	const char *name;
	void (*run)(void);
	void (*run_with)(long arg);	/* instead of run */
	long arg;
	unsigned int seconds;	/* 0: the default time limit */
	bool swap;		/* needs a swap device of its own */
	bool disk;		/* needs a disk to read page cache from */
	/*
	 * The runner calls these outside of the test: after() removes what
	 * before() set up, however the test ended. The test itself checks that
	 * it is there.
	 */
	void (*before)(void);
	void (*after)(void);
};

#define TEST(name_, run_, ...)						\
	{ .name = name_, .run = run_, ##__VA_ARGS__ }
#define TEST_WITH(name_, run_, arg_, ...)				\
	{ .name = name_, .run_with = run_, .arg = arg_, ##__VA_ARGS__ }

/* The test that is running. */
extern const struct test *present_test;

int run_tests(int argc, char **argv, const struct test *tests, int count);

#endif
