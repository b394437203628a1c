// SPDX-License-Identifier: GPL-2.0
/*
 * Many processes do everything that can happen to a huge page, in random order,
 * while allocations fail and other processes reclaim, compact, merge, split,
 * move between cgroups and turn every knob. Each process knows what its memory
 * must hold. The test itself finds lost data; a debug kernel finds the rest.
 *
 *	thp_churn SECONDS [TEST...]
 *
 * It is not one of the listed tests: it finds most in a long run on a kernel with
 * KASAN, lockdep, kmemleak and fault injection, with two NUMA nodes.
 * THP_CHURN_SEED repeats the choices of a run, not their order in time.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/mempolicy.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "thp_util.h"

#define WORKERS		6
#define AREAS		4
#define MAX_THPS	3
#define MAX_PAGES	(MAX_THPS * THP_PAGES)
#define NODES		2
#define HISTORY		8
/* One huge page more than the largest area, so a move may be unaligned. */
#define SLOT		((MAX_THPS + 1) * THP_SIZE)
#define SLOTS		(2 * AREAS)
#define TOP		"/sys/fs/cgroup/thp-churn"
#define THP_DIR		"/sys/kernel/mm/transparent_hugepage/"
/* How often each kind of operation must have succeeded in a long run. */
#define ENOUGH		10

enum op {
	MAP, UNMAP, WRITE, DONTNEED, LAZYFREE, PAGEOUT, COLD, COLLAPSE,
	MERGEABLE, UNMERGEABLE, HUGEPAGE, NOHUGEPAGE, MPROTECT, MREMAP, MLOCK,
	FORK, FORK_WRITE, MOVE_PAGES, MBIND, MIGRATE_PAGES, SPLIT_OWN,
	SPLIT_OTHER, RECLAIM, SQUEEZE, SCAN, MOVE_CGROUP, VERIFY, WORKER_OPS,
	KNOB = WORKER_OPS, DROP_CACHES, COMPACT, SPLIT_ALL, SWAPOFF, SWAPON,
	OPS
};

static const char * const op_names[OPS] = {
	"map", "unmap", "write", "dontneed", "free", "pageout", "cold",
	"collapse", "mergeable", "unmergeable", "hugepage", "nohugepage",
	"mprotect", "mremap", "mlock", "fork", "fork_write", "move_pages",
	"mbind", "migrate_pages", "split_own", "split_other", "reclaim",
	"squeeze", "scan", "move_cgroup", "verify", "knob", "drop_caches",
	"compact", "split_all", "swapoff", "swapon",
};

/* Counters that must grow; otherwise the run tested too little. */
static const char * const events[] = {
	"thp_fault_alloc", "thp_collapse_alloc", "thp_split_page",
	"thp_deferred_split_page", "thp_underused_split_page",
	"thp_underused_scan_page", "thp_zero_subpages_dropped", "thp_swpout",
	"thp_migration_success", "pglazyfreed", "pswpin", "pswpout",
	"pgmigrate_success",
};

/* Shared by all processes, and read by the tests after the churn. */
static struct shared {
	long done[OPS], failed[OPS], no_memory[OPS];
	long events[ARRAY_SIZE(events)];
	bool injected;
	struct {
		pid_t pid;
		unsigned int steps;
		unsigned char history[HISTORY];
	} workers[WORKERS];
} *shared;

struct place {
	struct area area;	/* no thps: free */
	unsigned char live[MAX_PAGES];
	bool lazy[MAX_PAGES];	/* the kernel may take the page away */
	bool mergeable;
};

static struct place places[AREAS];
static char *arena;		/* at the same address in every worker */
static int self;
static unsigned int seed;
static char group[64];		/* the worker's cgroup, a level above its leaf */
static int groups;
static double end;
static double seconds;

static unsigned int below(unsigned int limit)
{
	return rand_r(&seed) % limit;
}

/* --- memory --- */

static char *slot(int number)
{
	return arena + number * SLOT;
}

/* The slot that a place is in; it may begin anywhere in its first huge page. */
static int slot_of(const char *base)
{
	return (base - arena) / SLOT;
}

static char *free_slot(void)
{
	int number, i;

	do {
		number = below(SLOTS);
		for (i = 0; i < AREAS; i++)
			if (places[i].area.thps &&
			    slot_of(places[i].area.base) == number)
				break;
	} while (i < AREAS);
	return slot(number);
}

/* Under fault injection, a call that must succeed is repeated until it does. */
#define insist(call)							\
	do {								\
		long tries_ = 0;					\
									\
		while ((call) && ++tries_ < 10000)			\
			;						\
		expect(tries_ < 10000, "%s: %s", #call, strerror(errno)); \
	} while (0)

static void reserve(char *start, size_t size)
{
	insist(mmap(start, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		    MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED);
}

/*
 * After MADV_FREE a page holds its old content or zeros. A write makes the
 * kernel keep it; a byte beside the written one then shows which of the two it
 * was.
 */
static void settle_page(struct place *place, int page)
{
	unsigned char live = place->live[page];

	if (!place->lazy[page])
		return;
	place->lazy[page] = false;
	if (live == ZERO || live == GONE)
		return;
	area_write(&place->area, page, live == WHOLE ? FIRST_BYTE : live);
	if (live == WHOLE && area_page(&place->area, page)[1])
		place->live[page] = WHOLE;
}

static void settle(struct place *place)
{
	int i;

	for (i = 0; i < place->area.thps * THP_PAGES; i++)
		settle_page(place, i);
}

static bool verify(struct place *place)
{
	settle(place);
	area_verify(&place->area);
	return true;
}

static bool map(struct place *place)
{
	struct area *area = &place->area;
	int thps = 1 + below(MAX_THPS), thp;
	char *start = free_slot();

	memset(place, 0, sizeof(*place));
	if (mmap(start, thps * THP_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		 MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED) {
		reserve(start, SLOT);
		return false;
	}
	*area = (struct area){ .base = start, .origin = (uintptr_t)start,
			       .thps = thps, .live = place->live };
	insist(madvise(start, area_size(area), MADV_HUGEPAGE));
	for (thp = 0; thp < thps; thp++)
		area_choose(area, thp, below(3) ? below(60) : below(THP_PAGES),
			    FIRST_BYTE + below(WHOLE));
	area_fill_any(area);
	return true;
}

static bool unmap(struct place *place)
{
	verify(place);
	reserve(slot(slot_of(place->area.base)), SLOT);
	place->area.thps = 0;
	return true;
}

/* Some pages of a place: one, a few, one huge page, or all. */
struct range {
	int first, count;
};

static struct range choose(const struct place *place)
{
	int pages = place->area.thps * THP_PAGES;
	struct range range = { below(pages), 1 };

	switch (below(4)) {
	case 0:
		break;
	case 1:
		range.count = 1 + below(pages - range.first);
		break;
	case 2:
		range.first -= range.first % THP_PAGES;
		range.count = THP_PAGES;
		break;
	case 3:
		range = (struct range){ 0, pages };
	}
	return range;
}

static bool write_some(struct place *place)
{
	struct range range = choose(place);
	int i, live = below(GONE);

	for (i = range.first; i < range.first + range.count; i += 1 + below(9)) {
		place->lazy[i] = false;
		memset(area_page(&place->area, i), 0, PAGE_SIZE);
		area_write(&place->area, i, live);
	}
	return true;
}

static bool advise(struct place *place, int advice)
{
	struct range range = choose(place);
	int i, error;

	error = madvise(area_page(&place->area, range.first),
			range.count * PAGE_SIZE, advice);
	for (i = range.first; i < range.first + range.count; i++) {
		if (advice == MADV_DONTNEED && !error) {
			place->lazy[i] = false;
			place->live[i] = GONE;
		} else if (advice == MADV_FREE || advice == MADV_DONTNEED) {
			/* A failed call may have done a part. */
			place->lazy[i] = true;
		}
	}
	return !error;
}

/* Whole huge pages only: the kernel refuses smaller ranges. */
static bool collapse(struct place *place)
{
	char *base = place->area.base;
	uintptr_t start = ((uintptr_t)base + THP_SIZE - 1) & ~(THP_SIZE - 1);
	uintptr_t stop = ((uintptr_t)base + area_size(&place->area)) &
			 ~(THP_SIZE - 1);

	return !madvise((void *)start, stop - start, MADV_HUGEPAGE) &&
	       !madvise((void *)start, stop - start, MADV_COLLAPSE);
}

static bool protect(struct place *place)
{
	struct range range = choose(place);
	char *start = area_page(&place->area, range.first);
	bool done = !mprotect(start, range.count * PAGE_SIZE,
			      below(2) ? PROT_READ : PROT_NONE);

	usleep(below(2000));
	insist(mprotect(start, range.count * PAGE_SIZE,
			PROT_READ | PROT_WRITE));
	return done;
}

static bool move(struct place *place)
{
	char *from = place->area.base, *to = free_slot();
	size_t size = area_size(&place->area);

	to += below(2) ? 0 : below(THP_PAGES) * PAGE_SIZE;
	if (mremap(from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to) ==
	    MAP_FAILED) {
		int saved = errno;

		reserve(slot(slot_of(to)), SLOT);
		errno = saved;
		return false;
	}
	reserve(slot(slot_of(from)), SLOT);
	place->area.base = to;
	return true;
}

static bool lock(struct place *place)
{
	struct range range = choose(place);
	char *start = area_page(&place->area, range.first);
	bool done = !mlock(start, range.count * PAGE_SIZE);

	usleep(below(2000));
	insist(munlock(start, range.count * PAGE_SIZE));
	return done;
}

/* The child has the same memory, and writes to its own copy of it. */
static bool share(struct place *place, bool writes)
{
	pid_t pid;

	settle(place);
	pid = fork();
	if (pid < 0)
		return false;
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		area_verify(&place->area);
		if (writes)
			write_some(place);
		area_verify(&place->area);
		_exit(0);
	}
	if (writes)
		write_some(place);
	area_verify(&place->area);
	helper_join(pid);
	return true;
}

/* --- NUMA --- */

static bool move_to_node(struct place *place)
{
	int nodes[THP_PAGES], status[THP_PAGES], i, node = below(NODES);
	void *pages[THP_PAGES];
	struct range range = choose(place);

	if (range.count > THP_PAGES)
		range.count = THP_PAGES;
	for (i = 0; i < range.count; i++) {
		pages[i] = area_page(&place->area, range.first + i);
		nodes[i] = node;
		status[i] = -1;
	}
	if (syscall(SYS_move_pages, 0, range.count, pages, nodes, status,
		    MPOL_MF_MOVE) < 0)
		return false;
	for (i = 0; i < range.count; i++)
		if (status[i] == node)
			return true;
	return false;
}

static bool bind(struct place *place)
{
	struct range range = choose(place);
	unsigned long nodes = 1 << below(NODES);

	return !syscall(SYS_mbind, area_page(&place->area, range.first),
			range.count * PAGE_SIZE, MPOL_PREFERRED, &nodes,
			8 * sizeof(nodes), MPOL_MF_MOVE);
}

static bool migrate(pid_t pid)
{
	unsigned long from = 1 << below(NODES), to = 3 & ~from;

	return syscall(SYS_migrate_pages, pid, 8 * sizeof(from), &from, &to) >= 0;
}

/* --- cgroups and triggers --- */

static bool put(const char *path, const char *text)
{
	int error = file_write(path, text);

	errno = -error;
	return !error;
}

[[gnu::format(printf, 3, 4)]]
static bool group_put(const char *dir, const char *file, const char *fmt, ...)
{
	char path[128], text[64];
	va_list args;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return put(path, text);
}

static bool group_make(const char *name)
{
	char leaf[96];

	snprintf(leaf, sizeof(leaf), "%s/leaf", name);
	if (mkdir(name, 0755))
		return false;
	if (group_put(name, "cgroup.subtree_control", "+memory") &&
	    !mkdir(leaf, 0755) && group_put(leaf, "cgroup.procs", "0"))
		return true;
	rmdir(leaf);
	rmdir(name);
	return false;
}

static void group_drop(const char *name)
{
	char leaf[96];

	snprintf(leaf, sizeof(leaf), "%s/leaf", name);
	insist(rmdir(leaf) && errno != ENOENT && !usleep(1000));
	insist(rmdir(name) && errno != ENOENT && !usleep(1000));
}

/* Leaves its memory charged to the old cgroup, which is then removed. */
static bool move_cgroup(void)
{
	char old[sizeof(group)];

	strcpy(old, group);
	snprintf(group, sizeof(group), TOP "/%d.%d", self, groups++);
	if (!group_make(group)) {
		int saved = errno;

		strcpy(group, old);
		errno = saved;
		return false;
	}
	if (*old)
		group_drop(old);
	return true;
}

static bool squeeze(void)
{
	bool done = group_put(group, "memory.high", "%u", (4 + below(16)) << 20);

	insist(!group_put(group, "memory.high", "max"));
	return done;
}

static char scan_path[160];

static bool scan_queue(void)
{
	struct stat status;
	char leaf[96], text[64];

	/* The top cgroup has taken over what the removed ones left. */
	switch (below(3)) {
	case 0:
		strcpy(leaf, TOP);
		break;
	case 1:
		strcpy(leaf, group);
		break;
	default:
		snprintf(leaf, sizeof(leaf), "%s/leaf", group);
	}
	if (stat(leaf, &status))
		return false;
	snprintf(text, sizeof(text), "%lu %u %u", status.st_ino, below(NODES),
		 1 + below(20));
	return put(scan_path, text);
}

static bool split_huge(pid_t pid, const char *start, size_t size)
{
	char text[64];

	snprintf(text, sizeof(text), "%d,0x%lx,0x%lx", pid, (long)start,
		 (long)start + size);
	return put("/sys/kernel/debug/split_huge_pages", text);
}

/* --- a worker --- */

static bool perform(enum op op, struct place *place)
{
	pid_t other = shared->workers[below(WORKERS)].pid;

	switch (op) {
	case WRITE:		return write_some(place);
	case DONTNEED:		return advise(place, MADV_DONTNEED);
	case LAZYFREE:		return advise(place, MADV_FREE);
	case PAGEOUT:		return advise(place, MADV_PAGEOUT);
	case COLD:		return advise(place, MADV_COLD);
	case COLLAPSE:		return collapse(place);
	case MERGEABLE:		return advise(place, MADV_MERGEABLE);
	case UNMERGEABLE:	return advise(place, MADV_UNMERGEABLE);
	case HUGEPAGE:		return advise(place, MADV_HUGEPAGE);
	case NOHUGEPAGE:	return advise(place, MADV_NOHUGEPAGE);
	case MPROTECT:		return protect(place);
	case MREMAP:		return move(place);
	case MLOCK:		return lock(place);
	case FORK:		return share(place, false);
	case FORK_WRITE:	return share(place, true);
	case MOVE_PAGES:	return move_to_node(place);
	case MBIND:		return bind(place);
	case MIGRATE_PAGES:	return migrate(other);
	case SPLIT_OWN:		return split_huge(getpid(), place->area.base,
						  area_size(&place->area));
	case SPLIT_OTHER:	return split_huge(other, slot(below(SLOTS)), SLOT);
	case RECLAIM:		return group_put(group, "memory.reclaim", "%u",
						 (1 + below(16)) << 18);
	case SQUEEZE:		return squeeze();
	case SCAN:		return scan_queue();
	case MOVE_CGROUP:	return move_cgroup();
	case UNMAP:		return unmap(place);
	default:		return verify(place);
	}
}

static void count(enum op op, bool done)
{
	long *which = done ? shared->done : errno == ENOMEM ? shared->no_memory :
							       shared->failed;

	__atomic_fetch_add(&which[op], 1, __ATOMIC_RELAXED);
}

static void one_step(void)
{
	struct place *place = &places[below(AREAS)];
	/* A place is filled about as often as it is emptied. */
	enum op op = place->area.thps ? UNMAP + below(WORKER_OPS - UNMAP) : MAP;
	unsigned int step = shared->workers[self].steps++;

	shared->workers[self].history[step % HISTORY] = op;
	errno = 0;
	count(op, op == MAP ? map(place) : perform(op, place));
	if (op != UNMAP && place->area.thps && !below(3))
		verify(place);
}

static void work(void *number)
{
	int i;

	self = (intptr_t)number;
	seed = seed * WORKERS + self;
	shared->workers[self].pid = getpid();
	insist(!move_cgroup());
	file_write("/proc/self/make-it-fail", "1");
	while (now() < end)
		one_step();
	file_write("/proc/self/make-it-fail", "0");
	for (i = 0; i < AREAS; i++)
		if (places[i].area.thps)
			unmap(&places[i]);
}

/* --- what disturbs all workers --- */

static const struct { const char *name, *values[5]; } knobs[] = {
	{ "shrink_underused", { "0", "1", "1" } },
	{ "underused_max_ptes_none", { "0", "255", "409", "511", "khugepaged" } },
	{ "swapin_enabled", { "always", "always", "madvise", "never" } },
	{ "khugepaged/max_ptes_none", { "0", "64", "409", "511" } },
	{ "khugepaged/scan_sleep_millisecs", { "1", "10", "100" } },
	{ "enabled", { "always", "madvise" } },
	{ "defrag", { "always", "madvise", "defer+madvise" } },
};

static bool turn_a_knob(void)
{
	size_t knob = below(ARRAY_SIZE(knobs)), values = 0;

	while (values < 5 && knobs[knob].values[values])
		values++;
	return !knob_write(knobs[knob].name,
			   knobs[knob].values[below(values)]);
}

static void disturb(void *unused)
{
	static const enum op kinds[] = {
		KNOB, KNOB, KNOB, DROP_CACHES, COMPACT, SPLIT_ALL,
	};
	double swap_turn = now() + 5;
	bool swapping = true;

	(void)unused;
	while (now() < end) {
		enum op op = kinds[below(ARRAY_SIZE(kinds))];

		if (now() > swap_turn) {
			op = swapping ? SWAPOFF : SWAPON;
			swap_turn = now() + (swapping ? 1 : 2 + below(5));
		}
		errno = 0;
		switch (op) {
		case KNOB:
			count(op, turn_a_knob());
			break;
		case DROP_CACHES:
			count(op, put("/proc/sys/vm/drop_caches",
				      below(2) ? "2" : "3"));
			break;
		case COMPACT:
			count(op, put("/proc/sys/vm/compact_memory", "1"));
			break;
		case SPLIT_ALL:
			count(op, put("/sys/kernel/debug/split_huge_pages", "1"));
			break;
		case SWAPOFF:
			swapping = !swap_stop();
			count(op, !swapping);
			break;
		default:
			swapping = swap_start();
			count(op, swapping);
		}
		usleep(below(400000));
	}
	if (!swapping)
		swap_start();
}

/* --- fault injection --- */

/* Fails about one allocation in a hundred, and only in the workers. */
static void inject(const char *probability)
{
	static const char * const kinds[] = { "failslab", "fail_page_alloc" };
	static const struct { const char *file, *value; } settings[] = {
		{ "task-filter", "Y" }, { "ignore-gfp-wait", "N" },
		{ "verbose", "0" }, { "times", "-1" }, { "interval", "7" },
		{ "min-order", "0" }, { "probability", NULL },
	};
	size_t kind, i;

	for (kind = 0; kind < ARRAY_SIZE(kinds); kind++)
		for (i = 0; i < ARRAY_SIZE(settings); i++) {
			const char *value = settings[i].value;
			char path[96];

			snprintf(path, sizeof(path), "/sys/kernel/debug/%s/%s",
				 kinds[kind], settings[i].file);
			if (!value)
				value = probability;
			if (!file_write(path, value) && value == probability)
				shared->injected = true;
		}
}

/* --- the tests --- */

static void find_scan_file(void)
{
	glob_t found;

	if (glob("/sys/kernel/debug/shrinker/thp-deferred_split-*/scan", 0,
		 NULL, &found))
		skip("no shrinker debugfs (CONFIG_SHRINKER_DEBUG)");
	snprintf(scan_path, sizeof(scan_path), "%s", found.gl_pathv[0]);
	globfree(&found);
}

static void blame(pid_t pid)
{
	unsigned int i, step;

	for (i = 0; i < WORKERS; i++) {
		if (shared->workers[i].pid != pid)
			continue;
		step = shared->workers[i].steps;
		note("worker %u, its last operations:", i);
		for (step = step > HISTORY ? step - HISTORY : 0;
		     step < shared->workers[i].steps; step++)
			note("  %s", op_names[shared->workers[i].history[step % HISTORY]]);
	}
}

static void content(void)
{
	const char *given = getenv("THP_CHURN_SEED");
	long i, before[ARRAY_SIZE(events)];
	int status, children = 0;
	pid_t pid;

	find_scan_file();
	seed = given ? strtoul(given, NULL, 10) : (unsigned int)time(NULL);
	note("THP_CHURN_SEED=%u, %d workers, %.0f seconds", seed, WORKERS,
	     seconds);
	for (i = 0; i < (long)ARRAY_SIZE(events); i++)
		before[i] = counter(events[i]);
	arena = mmap(NULL, (SLOTS + 1) * SLOT, PROT_NONE, MAP_PRIVATE |
		     MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	expect(arena != MAP_FAILED, "mmap: %s", strerror(errno));
	arena = (char *)(((uintptr_t)arena + THP_SIZE - 1) & ~(THP_SIZE - 1));
	knob_set("khugepaged/alloc_sleep_millisecs", "10");
	knob_set("../ksm/pages_to_scan", "500");
	knob_set("../ksm/run", "1");
	inject("5");
	end = now() + seconds;
	for (i = 0; i < WORKERS; i++, children++)
		helper_start(work, (void *)i);
	helper_start(disturb, NULL);
	for (children++; children; children--) {
		pid = wait(&status);
		expect(pid > 0, "wait: %s", strerror(errno));
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			blame(pid);
		if (WIFSIGNALED(status))
			fail("a process was killed by signal %d",
			     WTERMSIG(status));
		if (WEXITSTATUS(status))
			_exit(WEXITSTATUS(status));
	}
	for (i = 0; i < (long)ARRAY_SIZE(events); i++)
		shared->events[i] = counter(events[i]) - before[i];
}

static long enough(void)
{
	return seconds < 10 * ENOUGH ? 1 + seconds / 10 : ENOUGH;
}

static void operations(void)
{
	int op, few = -1;

	for (op = 0; op < OPS; op++) {
		note("%-14s %8ld done %8ld out of memory %8ld failed",
		     op_names[op], shared->done[op], shared->no_memory[op],
		     shared->failed[op]);
		if (few < 0 && shared->done[op] < enough())
			few = op;
	}
	expect(few < 0, "%s was done %ld times, not %ld: the run tested too little",
	       op_names[few], shared->done[few], enough());
}

static void kernel_events(void)
{
	int i, few = -1;

	for (i = 0; i < (int)ARRAY_SIZE(events); i++) {
		note("%-26s %8ld", events[i], shared->events[i]);
		if (few < 0 && shared->events[i] < enough())
			few = i;
	}
	expect(few < 0, "%s grew by %ld, not %ld: the run tested too little",
	       events[few], shared->events[few], enough());
}

static void faults(void)
{
	long total = 0;
	int op;

	if (!shared->injected)
		skip("no fault injection (CONFIG_FAILSLAB, CONFIG_FAIL_PAGE_ALLOC)");
	for (op = 0; op < OPS; op++)
		total += shared->no_memory[op];
	expect(total >= enough(), "%ld operations met a failed allocation",
	       total);
}

/* On all queues of all cgroups: removing a cgroup must not lose any. */
static long queued(void)
{
	char text[8192] = "", path[sizeof(scan_path)], *line, *rest = text;
	long total = 0;

	snprintf(path, sizeof(path), "%.*scount",
		 (int)(strlen(scan_path) - strlen("scan")), scan_path);
	expect(!file_read(path, text, sizeof(text)), "%s cannot be read", path);
	while ((line = strsep(&rest, "\n"))) {
		strtoul(line, &line, 10);
		while (*line == ' ')
			total += strtol(line, &line, 10);
	}
	return total;
}

static void queues_empty(void)
{
	double limit = now() + 20;
	long left;

	find_scan_file();
	do {
		put("/proc/sys/vm/drop_caches", "2");
		left = queued();
	} while (left && now() < limit && !usleep(500000));
	expect(!left, "%ld huge pages are on queues after the last process ended",
	       left);
}

static void isolated_zero(void)
{
	expect_none_isolated(20);
}

/* --- set up and put back --- */

static void clean_up(void)
{
	glob_t found;
	size_t i;

	inject("0");
	file_write(TOP "/cgroup.kill", "1");
	for (i = 0; i < 100 && !rmdir(TOP) && errno != ENOENT; i++)
		;
	if (!glob(TOP "/*/leaf", 0, NULL, &found))
		for (i = 0; i < found.gl_pathc; i++) {
			found.gl_pathv[i][strlen(found.gl_pathv[i]) -
					  strlen("/leaf")] = '\0';
			group_drop(found.gl_pathv[i]);
		}
	globfree(&found);
	rmdir(TOP);
}

int main(int argc, char **argv)
{
	struct test tests[] = {
		TEST("churn.content", content, .swap = true),
		TEST("churn.operations", operations),
		TEST("churn.kernel_events", kernel_events),
		TEST("churn.failed_allocations", faults),
		TEST("churn.queues_empty", queues_empty),
		TEST("churn.isolated_zero", isolated_zero),
	};

	seconds = argc > 1 ? atof(argv[1]) : 0;
	if (seconds <= 0 && (argc != 2 || strcmp(argv[1], "--list"))) {
		fprintf(stderr, "usage: %s SECONDS [TEST...]\n", argv[0]);
		return 1;
	}
	if (seconds > 0) {
		argv[1] = argv[0];
		argc--;
		argv++;
		tests[0].seconds = 2 * seconds + 300;
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		if (shared == MAP_FAILED) {
			perror("mmap");
			return 1;
		}
		file_write("/sys/fs/cgroup/cgroup.subtree_control", "+memory");
		mkdir(TOP, 0755);
		file_write(TOP "/cgroup.subtree_control", "+memory");
		atexit(clean_up);
	}
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
