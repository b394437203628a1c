// SPDX-License-Identifier: GPL-2.0
/*
 * Reclaim and the shrinker: what is given back counts, no more is split than was
 * asked for, and what cannot be split does not take everybody's time.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thp_util.h"

#define JUDGE		"huge_memory/mm_thp_judge"
/* Half a gigabyte, of which 400 MB are zeros. */
#define MANY		256

static long charged(void)
{
	return cgroup_number("memory.current");
}

/* --- what is given back counts --- */

#define REQUEST		"32M"
#define LEAST		(30 * MB)
#define MOST		(64 * MB)

static void request_is_met(void)
{
	struct area area;
	long given;
	int error;

	set_threshold(USUAL_THRESHOLD);
	/* Nothing can be swapped, so only the shrinker has anything to give. */
	cgroup_write("memory.swap.max", "0");
	area = area_alloc(MANY, SPARSE);
	given = charged();
	error = cgroup_write("memory.reclaim", REQUEST);
	given -= charged();
	note("memory.reclaim of " REQUEST ": %s, %ld MB given back, %d of %d huge pages whole",
	     error ? strerror(-error) : "done", given / (long)MB,
	     area_whole(&area), MANY);
	expect(!error, "memory.reclaim: %s, with %ld MB given back",
	       strerror(-error), given / (long)MB);
	expect(given >= (long)LEAST && given <= (long)MOST,
	       "%ld MB given back, not 30 to 64", given / (long)MB);
	area_verify(&area);
}

/* --- the last call ends in time, although it may take twice as many --- */

#define REQUEST_OF_MANY	"110M"
/* What has that many zeros, and a few more. */
#define ENOUGH		(110 * (int)MB / ((THP_PAGES - SPARSE) * (int)PAGE_SIZE) + 8)

static void no_more_than_wanted(void)
{
	struct area area;
	int error, split;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(MANY, SPARSE);
	error = cgroup_write("memory.reclaim", REQUEST_OF_MANY);
	split = MANY - area_whole(&area);
	note("memory.reclaim of " REQUEST_OF_MANY ": %d of %d huge pages split",
	     split, MANY);
	expect(!error, "memory.reclaim: %s", strerror(-error));
	expect(split <= ENOUGH, "%d huge pages split, %d are enough", split,
	       ENOUGH);
	area_verify(&area);
}

/* --- a page fault splits what it needs --- */

#define SPLITS_ALLOWED	4
#define FAULTS		64

/* Memory for that many pages, which are small. */
static char *map_small(int pages)
{
	char *memory = mmap(NULL, pages * PAGE_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	expect(!madvise(memory, pages * PAGE_SIZE, MADV_NOHUGEPAGE),
	       "MADV_NOHUGEPAGE: %s", strerror(errno));
	return memory;
}

static void limit_to_charged(const char *cgroup)
{
	char file[64], limit[32];

	snprintf(file, sizeof(file), "%smemory.current", cgroup);
	snprintf(limit, sizeof(limit), "%ld", cgroup_number(file));
	snprintf(file, sizeof(file), "%smemory.max", cgroup);
	cgroup_set(file, limit);
}

static void fault_splits_few(void)
{
	struct area area;
	char *more;
	long split;
	int i;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(MANY, SPARSE);
	more = map_small(FAULTS);
	split = counter(SPLIT);
	limit_to_charged("");
	for (i = 0; i < FAULTS; i++)
		more[i * PAGE_SIZE] = 1;
	split = counter(SPLIT) - split;
	note("%d pages at memory.max: %ld of %d huge pages split", FAULTS,
	     split, MANY);
	expect(split >= 1, "no huge page is split: is memory.max in force?");
	expect(split <= SPLITS_ALLOWED, "%ld huge pages split for %d pages",
	       split, FAULTS);
	area_verify(&area);
}

/* --- and does not keep an mmap() of another thread waiting --- */

/* As mmap() itself takes memory, it may split one, too. */
#define SPLITS_MEANWHILE	(2 * SPLITS_ALLOWED)
#define FAULTS_BESIDE		4096

struct writer {
	char *memory;
	atomic_bool done;
};

static void *write_pages(void *arg)
{
	struct writer *writer = arg;
	int i;

	for (i = 0; i < FAULTS_BESIDE; i++)
		writer->memory[i * PAGE_SIZE] = 1;
	atomic_store(&writer->done, true);
	return NULL;
}

/* Both need the lock of the address space. */
static void mmap_waits_for_few(void)
{
	long before, split, most = 0;
	struct writer writer = { 0 };
	struct area area;
	pthread_t thread;
	int maps;
	void *map;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(MANY, SPARSE);
	writer.memory = map_small(FAULTS_BESIDE);
	limit_to_charged("");
	before = counter(SPLIT);
	expect(!pthread_create(&thread, NULL, write_pages, &writer),
	       "no thread");
	for (maps = 0; !atomic_load(&writer.done); maps++) {
		split = counter(SPLIT);
		map = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		expect(map != MAP_FAILED, "mmap: %s", strerror(errno));
		split = counter(SPLIT) - split;
		most = split > most ? split : most;
		munmap(map, PAGE_SIZE);
	}
	pthread_join(thread, NULL);
	note("%d times mmap() beside %d pages at memory.max: %ld huge pages split in all, %ld at most during one",
	     maps, FAULTS_BESIDE, counter(SPLIT) - before, most);
	expect(maps > 1, "mmap() waited for all pages");
	expect(counter(SPLIT) > before,
	       "no huge page is split: is memory.max in force?");
	expect(most <= SPLITS_MEANWHILE,
	       "mmap() waited until %ld huge pages were split", most);
	area_verify(&area);
}

/* --- those who want the lock of the shrinkers do not keep reclaim from them --- */

#define WELL_USED	256
#define UNDERUSED	32

static void create_cgroups(void *name)
{
	cgroup_go("others");
	for (;;) {
		cgroup_make(name);
		cgroup_rmdir(name);
	}
}

static void mount_file_systems(void *where)
{
	cgroup_go("others");
	expect(!unshare(CLONE_NEWNS) &&
	       !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL),
	       "no mount namespace: %s", strerror(errno));
	for (;;)
		expect(!mount("none", where, "tmpfs", 0, NULL) &&
		       !umount(where), "tmpfs on %s: %s", (char *)where,
		       strerror(errno));
}

struct other {
	void (*run)(void *arg);
	void *arg;
};

static const struct other creators[] = {
	{ create_cgroups, "one" },
	{ create_cgroups, "two" },
	{ create_cgroups, "three" },
	{ 0 },
};

static const struct other mounters[] = {
	{ mount_file_systems, "/tmp" },
	{ mount_file_systems, "/tmp" },
	{ mount_file_systems, "/tmp" },
	{ 0 },
};

static void write_at_limit(void *memory)
{
	int i;

	cgroup_go("load");
	for (i = 0; i < FAULTS_BESIDE; i++)
		((char *)memory)[i * PAGE_SIZE] = 1;
}

/*
 * The cgroup of the load has all the memory and no other process than the one
 * that writes: an OOM kill meets that one.
 */
static void lives_beside(const struct other *others)
{
	struct area used, sparse;
	int status, count = 0;
	pid_t writer;
	char *memory;
	long split;

	if (cgroup_is_v1())
		skip("needs cgroup v2");
	set_threshold(USUAL_THRESHOLD);
	cgroup_make("others");
	cgroup_make("load");
	cgroup_make("test");
	cgroup_go("load");
	used = area_alloc(WELL_USED, DENSE);
	sparse = area_alloc(UNDERUSED, SPARSE);
	memory = map_small(FAULTS_BESIDE);
	cgroup_go("test");
	cgroup_set("load/memory.swap.max", "0");
	limit_to_charged("load/");
	split = counter(SPLIT);
	for (; others[count].run; count++)
		helper_start(others[count].run, others[count].arg);
	writer = helper_start(write_at_limit, memory);
	expect(waitpid(writer, &status, 0) == writer, "waitpid: %s",
	       strerror(errno));
	split = counter(SPLIT) - split;
	note("%d pages at memory.max beside %d others: %ld of %d huge pages split",
	     FAULTS_BESIDE, count, split, UNDERUSED);
	expect(!cgroup_event("load/memory.events", "oom_kill"),
	       "out of memory, with %ld of %d underused huge pages split",
	       split, UNDERUSED);
	expect(WIFEXITED(status) && !WEXITSTATUS(status),
	       "the pages were not written: status %#x", status);
	expect(split >= 1, "no huge page is split: is memory.max in force?");
	expect_whole(&used, "well used");
	area_verify(&sparse);
}

static void lives_beside_cgroups(void)
{
	lives_beside(creators);
}

static void lives_beside_mounts(void)
{
	lives_beside(mounters);
}

/* --- many small cgroups --- */

#define CHILDREN	32
#define EACH		2

/* What the first child gives is enough: the others are not asked. */
static void satisfied_spares_children(void)
{
	struct area areas[CHILDREN];
	long split;
	int i;

	set_threshold(USUAL_THRESHOLD);
	for (i = 0; i < CHILDREN; i++) {
		char name[16];

		snprintf(name, sizeof(name), "child%d", i);
		cgroup_make(name);
		cgroup_go(name);
		areas[i] = area_alloc(EACH, SPARSE);
	}
	split = counter(SPLIT);
	expect(!cgroup_write("memory.reclaim", "1M"),
	       "1M could not be reclaimed");
	split = counter(SPLIT) - split;
	note("memory.reclaim of 1M above %d cgroups: %ld huge pages split",
	     CHILDREN, split);
	expect(split >= 1, "no huge page is split");
	expect(split <= SPLITS_ALLOWED,
	       "%ld huge pages split for 1M: are all %d cgroups asked?", split,
	       CHILDREN);
	for (i = 0; i < CHILDREN; i++)
		area_verify(&areas[i]);
}

#define MIN_FREE	"/proc/sys/vm/min_free_kbytes"
#define SHRINKS		"vmscan/mm_shrink_slab_start"
#define CALLED		"deferred_split_scan+0x0"
#define LIGHTEST	" priority 12"
#define WAKE_SECONDS	10
/* Above this, kswapd would take gigabytes of a host's page cache. */
#define MOST_FREE	(8UL << 30)

static char saved_min_free[32];

static void min_free_save(void)
{
	file_read(MIN_FREE, saved_min_free, sizeof(saved_min_free));
}

static void min_free_restore(void)
{
	file_write(MIN_FREE, saved_min_free);
}

/* Now kswapd finds too little free memory, and everybody else enough. */
static void min_free_raise(void)
{
	long free_kb = counter("nr_free_pages") * (long)(PAGE_SIZE / KB);
	char text[32];

	snprintf(text, sizeof(text), "%ld", free_kb / 10 * 9);
	expect(!file_write(MIN_FREE, text), MIN_FREE " does not take %s", text);
}

/* Kswapd begins with the lightest pressure: no huge page of a few is asked for. */
static void light_spares_few(void)
{
	struct area area, wake;
	double end = now() + patience(WAKE_SECONDS);
	int calls, idle;

	if (counter("nr_free_pages") * PAGE_SIZE > MOST_FREE)
		skip("needs a host with less than 8 GiB of free memory");
	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(4, SPARSE);
	wake = area_map(1);
	trace_on(SHRINKS, false);
	trace_filter(SHRINKS, "priority == 12 && cache_items <= 4");
	min_free_raise();
	area_fill_small(&wake);
	while (!trace_lines(CALLED, LIGHTEST) && now() < end)
		usleep(10000);
	min_free_restore();
	trace_stop();
	idle = trace_lines(CALLED, " total_scan 0" LIGHTEST);
	calls = trace_lines(CALLED, LIGHTEST);
	note("%d calls under the lightest pressure, %d of them for nothing",
	     calls, idle);
	expect(calls, "kswapd does not come to the huge pages");
	expect(idle == calls, "%d of %d calls ask for a huge page of a few",
	       calls - idle, calls);
	area_verify(&area);
}

/* --- what cannot be split --- */

#define PINNED		64
#define PASSES		40
#define RECLAIMERS	4

/* Pins a page of each, until the test ends. */
static void pin_all(struct area *area)
{
	int thp;

	for (thp = 0; thp < area->thps; thp++)
		pin_page(area_page(area, thp * THP_PAGES + 3));
}

static void reclaim_often(void *unused)
{
	double began = now();
	int i;

	(void)unused;
	for (i = 0; i < PASSES && now() - began < 6; i++)
		cgroup_write("memory.reclaim", "1M");
}

/* By all of them together, as all of this ends before the ten seconds do. */
static void pinned_visited_once(void)
{
	pid_t reclaimers[RECLAIMERS];
	struct area area;
	int i, visits;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(MANY, SPARSE);
	pin_all(&area);
	trace_on(JUDGE, false);
	for (i = 0; i < RECLAIMERS; i++)
		reclaimers[i] = helper_start(reclaim_often, NULL);
	for (i = 0; i < RECLAIMERS; i++)
		helper_join(reclaimers[i]);
	visits = trace_lines("mm_thp_judge:", "verdict=pinned");
	note("%d visits of %d pinned huge pages by %d tasks", visits, MANY,
	     RECLAIMERS);
	expect(visits >= MANY, "%d of %d visited", visits, MANY);
	expect(visits <= MANY, "%d visits of %d pinned huge pages", visits,
	       MANY);
	expect_whole(&area, "pinned");
}

/* Those behind them are reached by the first request. */
static void reached_behind_pinned(void)
{
	struct area stuck, area;
	int error;

	set_threshold(USUAL_THRESHOLD);
	stuck = area_alloc(PINNED, SPARSE);
	pin_all(&stuck);
	area = area_alloc(16, SPARSE);
	error = cgroup_write("memory.reclaim", "8M");
	expect(!error, "memory.reclaim of 8M: %s", strerror(-error));
	expect(area_whole(&area) < 16, "none of 16 is split");
	expect_whole(&stuck, "pinned");
	area_verify(&area);
}

/* --- a scan ends with its task --- */

/* How many more it may split until the signal is seen. */
#define AFTER_KILL	2

static void reclaim_all(void *unused)
{
	(void)unused;
	cgroup_write("memory.reclaim", "500M");
}

static void killed_at_once(void)
{
	long before, split;
	struct area area;
	int status;
	pid_t pid;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(MANY, SPARSE);
	before = counter(SPLIT);
	pid = helper_start(reclaim_all, NULL);
	while (counter(SPLIT) < before + MANY / 16)
		expect(waitpid(pid, &status, WNOHANG) == 0,
		       "reclaim ended with %ld huge pages split",
		       counter(SPLIT) - before);
	kill(pid, SIGKILL);
	split = counter(SPLIT);
	expect(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
	expect(WIFSIGNALED(status), "reclaim ended before it was killed");
	split = counter(SPLIT) - split;
	note("%ld huge pages split after the kill", split);
	expect(split <= AFTER_KILL, "%ld huge pages split after the kill",
	       split);
	area_verify(&area);
}

/* --- news of a part that is unmapped is only that --- */

static void split_is_no_news(void)
{
	struct area area;
	long queued;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(8, SPARSE);
	queued = counter("thp_deferred_split_page");
	trigger();
	expect_split(&area);
	expect(counter("thp_deferred_split_page") == queued,
	       "thp_deferred_split_page has risen by %ld",
	       counter("thp_deferred_split_page") - queued);
}

static const struct test tests[] = {
	TEST("reclaim.request_is_met", request_is_met),
	TEST("reclaim.no_more_than_wanted", no_more_than_wanted),
	TEST("reclaim.fault_splits_few", fault_splits_few),
	TEST("reclaim.mmap_waits_for_few", mmap_waits_for_few),
	TEST("reclaim.lives_beside_cgroups", lives_beside_cgroups),
	TEST("reclaim.lives_beside_mounts", lives_beside_mounts),
	TEST("reclaim.satisfied_spares_children", satisfied_spares_children),
	TEST("reclaim.light_spares_few", light_spares_few,
	     .before = min_free_save, .after = min_free_restore),
	TEST("reclaim.pinned_visited_once", pinned_visited_once),
	TEST("reclaim.reached_behind_pinned", reached_behind_pinned),
	TEST("reclaim.killed_at_once", killed_at_once),
	TEST("reclaim.split_is_no_news", split_is_no_news),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
