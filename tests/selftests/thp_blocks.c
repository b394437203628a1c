// SPDX-License-Identifier: GPL-2.0
/*
 * Free memory in whole blocks or in pieces, for the tests of vm.defrag_mode.
 *
 * Most of these fill all memory with small pages that can be moved and give back a
 * quarter of them, at random: much is free then, and little of it in blocks.
 * Pipes get pages that cannot be moved. Only with THP_TEST_FILL_MEMORY=1, as
 * other programs of the host would be in need.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "thp_util.h"

#define FALLBACK	"kmem/mm_page_alloc_extfrag"
#define MIXED		"fragmenting=1"

#define LARGEST_ORDER	10
#define BLOCK_ORDER	9
#define PIPE_SIZE	(64 * KB)
#define MOST_PIPES	20000
#define MOST_NODES	16

#define LEAK		((long)(32 * MB))
#define FREED_WITHIN	20	/* seconds */

/* --- settings --- */

/* What a test may change, with the value that each test starts with, if not the host's. */
static struct setting {
	const char *path;
	const char *base;
	char saved[32];
} settings[] = {
	{ .path = MOVE_LOCKED },
	/* Else each fallback raises the watermarks. */
	{ .path = "/proc/sys/vm/watermark_boost_factor", .base = "0" },
	/* Else kcompactd makes blocks that nobody has asked for. */
	{ .path = "/proc/sys/vm/compaction_proactiveness", .base = "0" },
	/* Else each CPU keeps tens of huge pages that were given back. */
	{ .path = "/proc/sys/vm/percpu_pagelist_high_fraction",
	  .base = "1000000" },
	{ .path = "/proc/sys/vm/watermark_scale_factor" },
	{ .path = "/proc/sys/vm/min_free_kbytes" },
	/* The last: with low watermarks, the kernel refuses it. */
	{ .path = DEFRAG_MODE, .base = "0" },
};

/* There is one for each node. */
static int find_kcompactd(int *pids, int most)
{
	int count = 0;
	char name[32];
	glob_t found;
	size_t i;

	if (glob("/proc/[0-9]*/comm", 0, NULL, &found))
		return 0;
	for (i = 0; i < found.gl_pathc && count < most; i++) {
		const char *path = found.gl_pathv[i];

		if (!file_read(path, name, sizeof(name)) &&
		    !strncmp(name, "kcompactd", strlen("kcompactd")))
			pids[count++] = atoi(path + strlen("/proc/"));
	}
	globfree(&found);
	return count;
}

static void kcompactd_policy(int policy)
{
	static const struct sched_param lowest;
	int pids[MOST_NODES];
	int count = find_kcompactd(pids, MOST_NODES);

	while (count--)
		sched_setscheduler(pids[count], policy, &lowest);
}

void settings_save(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(settings); i++) {
		struct setting *setting = &settings[i];

		if (file_read(setting->path, setting->saved,
			      sizeof(setting->saved)))
			*setting->saved = '\0';
		else if (setting->base)
			file_write(setting->path, setting->base);
	}
}

void settings_restore(void)
{
	size_t i;

	kcompactd_policy(SCHED_OTHER);
	for (i = 0; i < ARRAY_SIZE(settings); i++) {
		if (*settings[i].saved)
			file_write(settings[i].path, settings[i].saved);
	}
}

void file_set(const char *path, const char *value)
{
	int error = file_write(path, value);

	expect(!error, "%s does not take %s: %s", path, value,
	       strerror(-error));
}

/* --- what is free --- */

long meminfo(const char *name)
{
	FILE *file = fopen("/proc/meminfo", "re");
	char line[128], key[64];
	long value;

	expect(file, "/proc/meminfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%63[^:]: %ld", key, &value) == 2 &&
		    !strcmp(key, name)) {
			fclose(file);
			return value * KB;
		}
	}
	fail("no %s in /proc/meminfo", name);
}

/* Bytes that /proc/zoneinfo gives under this name, in all zones. */
long zoneinfo(const char *name)
{
	FILE *file = fopen("/proc/zoneinfo", "re");
	char line[256], key[64];
	long value, pages = -1;

	expect(file, "/proc/zoneinfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, " %63s %ld", key, &value) == 2 &&
		    !strcmp(key, name))
			pages = pages < 0 ? value : pages + value;
	}
	fclose(file);
	expect(pages >= 0, "no %s in /proc/zoneinfo", name);
	return pages * PAGE_SIZE;
}

/* Bytes in buddies of a huge page or more. A block may be larger than that. */
long in_large_buddies(void)
{
	FILE *file = fopen("/proc/buddyinfo", "re");
	char line[512], *text;
	long pages = 0;
	int order;

	expect(file, "/proc/buddyinfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		text = strstr(line, "zone");
		expect(text, "/proc/buddyinfo: %s", line);
		text += strlen("zone");
		text += strspn(text, " ");
		text += strcspn(text, " ");
		for (order = 0; order <= LARGEST_ORDER; order++) {
			long count = strtol(text, &text, 10);

			if (order >= BLOCK_ORDER)
				pages += count << order;
		}
	}
	fclose(file);
	return pages * PAGE_SIZE;
}

/*
 * What is cached is not lost: without that it depends on what the host has read
 * meanwhile. Entries and inodes go as well. Each CPU has a list of free pages, tens
 * of megabytes of them, which MemFree leaves out.
 */
static long free_without_caches(void)
{
	file_set("/proc/sys/vm/drop_caches", "3");
	return meminfo("MemFree") + zoneinfo("count:");
}

static long free_at_start;

void watch_for_leaks(void)
{
	free_at_start = free_without_caches();
}

/* What belonged to processes that have ended is freed in batches, by RCU. */
void expect_no_leak(void)
{
	double end = now() + FREED_WITHIN;
	long after;

	while ((after = free_without_caches()) <= free_at_start - LEAK) {
		expect(now() < end, "%ld MB free before, %ld after",
		       free_at_start / (long)MB, after / (long)MB);
		usleep(100000);
	}
	note("%ld MB free before, %ld after", free_at_start / (long)MB,
	     after / (long)MB);
}

/*
 * Bytes beside whole blocks in blocks that movable pages may get into, but for those
 * of ZONE_DMA, which are kept back.
 */
long movable_free(void)
{
	FILE *file = fopen("/proc/pagetypeinfo", "re");
	char line[512], zone[32], *text;
	long pages = 0;
	int order;

	expect(file, "/proc/pagetypeinfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		/* The last part counts blocks, of all types in a line. */
		if (!strncmp(line, "Number of blocks", 16))
			break;
		text = strstr(line, "type");
		if (sscanf(line, "Node %*d, zone %31[^,]", zone) != 1 ||
		    !strcmp(zone, "DMA") || !text ||
		    (!strstr(text, "Movable") && !strstr(text, "CMA")))
			continue;
		text += strlen("type");
		text += strspn(text, " ");
		text += strcspn(text, " ");
		for (order = 0; order < BLOCK_ORDER; order++)
			pages += strtol(text, &text, 10) << order;
	}
	fclose(file);
	return pages * PAGE_SIZE;
}

void note_free(void)
{
	note("%ld MB free, %ld MB of it in blocks", meminfo("MemFree") / MB,
	     in_large_buddies() / MB);
}

/* --- memory in pieces --- */

/* If memory runs out after all, the test is what the OOM killer takes. */
void need_all_memory(void)
{
	if (!getenv("THP_TEST_FILL_MEMORY"))
		skip("fills all memory: not without THP_TEST_FILL_MEMORY=1");
	file_set("/proc/self/oom_score_adj", "1000");
}

/* Small pages, until little more than the watermarks is left. */
char *fill_memory(size_t *size)
{
	size_t most = meminfo("MemTotal"), step = 4 * MB;
	long left = (zoneinfo("low") + zoneinfo("high")) / 2 + step;
	char *memory = mmap(NULL, most, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	expect(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	expect(!madvise(memory, most, MADV_NOHUGEPAGE), "MADV_NOHUGEPAGE: %s",
	       strerror(errno));
	/* Or it would be there for as long as the last child. */
	expect(!madvise(memory, most, MADV_DONTFORK), "MADV_DONTFORK: %s",
	       strerror(errno));
	for (*size = 0; meminfo("MemFree") > left && *size + step <= most;
	     *size += step)
		expect(!madvise(memory + *size, step, MADV_POPULATE_WRITE),
		       "MADV_POPULATE_WRITE: %s", strerror(errno));
	return memory;
}

static struct mapping make_holes(char *memory, size_t size)
{
	unsigned int seed = 1;
	size_t i;

	expect(size > 4 * RECLAIMABLE, "only %zu MB could be filled", size / MB);
	/* Without anything to reclaim, nobody waits for compaction. */
	expect(!madvise(memory, RECLAIMABLE, MADV_FREE), "MADV_FREE: %s",
	       strerror(errno));
	for (i = RECLAIMABLE; i < size; i += PAGE_SIZE) {
		if (!(rand_r(&seed) & 0x3000))
			madvise(memory + i, PAGE_SIZE, MADV_DONTNEED);
	}
	note_free();
	return (struct mapping){ memory + RECLAIMABLE, size - RECLAIMABLE };
}

struct mapping take_to_pieces(void)
{
	size_t size;
	char *memory;

	need_all_memory();
	cgroup_set("memory.swap.max", "0");
	memory = fill_memory(&size);
	return make_holes(memory, size);
}

static void spin(void *unused)
{
	(void)unused;
	for (;;)
		;
}

/* kcompactd gets the time that nobody else wants, and there is none. */
void occupy_kcompactd(void)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN);

	kcompactd_policy(SCHED_IDLE);
	while (cpus--)
		helper_start(spin, NULL);
}

/* Only what it does itself, whichever process asks for it. */
void trace_kcompactd(const char *event)
{
	char filter[MOST_NODES * 32] = "common_pid == 0";
	int pids[MOST_NODES];
	int count = find_kcompactd(pids, MOST_NODES);

	expect(count, "there is no kcompactd");
	while (count--)
		sprintf(filter + strlen(filter), " || common_pid == %d",
			pids[count]);
	trace_on(event, false);
	trace_filter(event, filter);
}

/* Compaction cannot move these pages, nor can reclaim have them. */
void lock_in_place(struct mapping pieces)
{
	file_set(MOVE_LOCKED, "0");
	expect(!mlock2(pieces.memory, pieces.size, MLOCK_ONFAULT), "mlock2: %s",
	       strerror(errno));
}

/* Each process has these pipes by itself. */
void fill_pipes(long size)
{
	struct rlimit files = { 2 * MOST_PIPES, 2 * MOST_PIPES };
	static char buffer[PIPE_SIZE];

	expect(!setrlimit(RLIMIT_NOFILE, &files), "RLIMIT_NOFILE: %s",
	       strerror(errno));
	for (; size > 0; size -= PIPE_SIZE) {
		int fds[2];

		expect(!pipe2(fds, O_NONBLOCK), "pipe2: %s", strerror(errno));
		expect(write(fds[1], buffer, PIPE_SIZE) == (ssize_t)PIPE_SIZE,
		       "pipe: %s", strerror(errno));
	}
}

/* Each keeps half of its pages. */
void halve_pipes(void)
{
	static char buffer[PIPE_SIZE / 2];
	int fd;

	for (fd = 3; fd < 2 * MOST_PIPES; fd++)
		read(fd, buffer, sizeof(buffer));
}

void trace_mixing(void)
{
	trace_on(FALLBACK, true);
	trace_stacks();
}

/*
 * How often did pages that cannot be moved get into a block of others? What a debug
 * kernel notes of each allocation does not count: it asks in ways that must not fail
 * for a block, amid whatever the test asks for. Nor does what an interrupt asks for: it
 * may not wait, and is traced as if the interrupted process had asked.
 */
int mixed(void)
{
	static const char *const not_asked_for[] = {
		"kmemleak", "stack_depot", "softirq", "common_interrupt",
		"sysvec_", NULL
	};

	return trace_events(MIXED, not_asked_for).by_others;
}

/* Begins again, with what is for so many pages at once, whichever process asks. */
void trace_mixing_for(int order)
{
	char filter[32];

	snprintf(filter, sizeof(filter), "alloc_order == %d", order);
	trace_filter(FALLBACK, filter);
	trace_clear();
}

/* How often did it get there for this function of the kernel? */
int mixed_by(const char *function)
{
	const char *const functions[] = { function, NULL };

	return trace_events(MIXED, functions).by_names;
}

/*
 * Without compaction, the kind of pages that pipes get runs out, with much free
 * memory of another.
 */
void exhaust_kind(void)
{
	int before, turns;

	occupy_kcompactd();
	lock_in_place(take_to_pieces());
	file_set(DEFRAG_MODE, "1");
	trace_mixing();
	/* The first to be mixed may be for a request of several pages. */
	for (turns = 0; turns < 2; turns = mixed() > before ? turns + 1 : 0) {
		before = mixed();
		fill_pipes(4 * MB);
	}
	note_free();
}
