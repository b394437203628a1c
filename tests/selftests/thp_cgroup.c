// SPDX-License-Identifier: GPL-2.0
/* Cgroups: their removal, short queues, counters. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "thp_util.h"

/* --- removed cgroups --- */

#define HANDOVER_SECONDS	5

/* Leaves memory charged to a cgroup, and removes the cgroup. */
static struct area area_left_behind(int live_pages, bool scanned)
{
	struct area area;

	cgroup_make("main");
	cgroup_make("gone");
	cgroup_go("gone");
	area = area_alloc(4, live_pages);
	expect(queue_count_in("gone") == 4, "%ld huge pages queued, not 4",
	       queue_count_in("gone"));
	if (scanned)
		queue_scan_in("gone", DEFERRED_SCAN_ALL);
	cgroup_go("main");
	expect(!cgroup_rmdir("gone"), "the cgroup is not empty");
	return area;
}

/* The kernel tears a removed cgroup down in the background. */
static void wait_queued(long want)
{
	double end = now() + HANDOVER_SECONDS;

	while (queue_count() != want && now() < end)
		usleep(50000);
	expect_queued(want);
}

static void removed_waiting(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_left_behind(SPARSE, false);
	wait_queued(4);
	trigger();
	expect_split(&area);
	expect_queued(0);
}

static void removed_used(void)
{
	struct area area;

	set_threshold(511);
	area = area_left_behind(SPARSE, true);
	expect_whole(&area, "in use");
	set_threshold(USUAL_THRESHOLD);
	wait_queued(4);
	trigger();
	expect_split(&area);
}

static void removed_then_partial(void)
{
	struct area area;

	set_threshold(511);
	area = area_left_behind(DENSE, false);
	wait_queued(4);
	area_make_partial(&area);
	expect_queued(4);
	trigger();
	expect(!area_whole(&area), "%d of 4 are not split", area_whole(&area));
	expect_queued(0);
	area_verify(&area);
}

/* Memory freed after its cgroup was removed leaves the new queue too. */
static void removed_then_freed(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_left_behind(SPARSE, false);
	wait_queued(4);
	area_free(&area);
	expect_queued(0);
}

/* --- reached in time --- */

#define FEW		20
#define CACHE		(128 * MB)
#define REQUEST		(4 * MB)
/* Two huge pages give back 4M: ten requests, and two because of the cache. */
#define CALLS_ALLOWED	(FEW / 2 + 2)
#define CALLS_TRIED	100

/*
 * Reclaim finds enough in the page cache, so its priority never rises. It must
 * still scan a queue that is short.
 */
static void few_are_reached(void)
{
	struct area area;
	int calls;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(FEW, SPARSE);
	cache_fill(CACHE);
	for (calls = 0; area_whole(&area) && calls < CALLS_TRIED; calls++) {
		cache_fill(REQUEST);
		expect(!cgroup_write("memory.reclaim", "4M"),
		       "less than 4M could be reclaimed");
	}
	note("memory.reclaim of 4M: %d of %d huge pages given back within %d calls",
	     FEW - area_whole(&area), FEW, calls);
	expect(calls <= CALLS_ALLOWED, "more than %d calls needed",
	       CALLS_ALLOWED);
	expect_split(&area);
}

/* --- counters --- */

#define STAT	"memory.stat"

/* The kernel adds up the per-CPU counts every two seconds. */
static void expect_stat(const char *file, const char *key, long want)
{
	double end = now() + 5;

	if (cgroup_is_v1())
		skip("cgroup v1 has no events of the kind in %s", file);
	expect(cgroup_event(file, key) >= 0, "%s has no %s", file, key);
	while (cgroup_event(file, key) != want && now() < end)
		usleep(100000);
	expect(cgroup_event(file, key) == want, "%s: %s is %ld, not %ld", file,
	       key, cgroup_event(file, key), want);
}

static void expect_stats(const char *file, long scanned, long split,
			 long dropped)
{
	expect_stat(file, SCANNED, scanned);
	expect_stat(file, SPLIT, split);
	expect_stat(file, DROPPED, dropped);
}

static void stat_counts(void)
{
	struct area sparse, dense;

	set_threshold(USUAL_THRESHOLD);
	sparse = area_alloc(3, SPARSE);
	dense = area_alloc(2, DENSE);
	expect_stats(STAT, 0, 0, 0);
	trigger();
	expect_split(&sparse);
	expect_whole(&dense, "dense");
	expect_stats(STAT, 5, 3, area_zero_pages(&sparse));
}

/* A cgroup counts what happens in its descendants, but not in its siblings. */
static void stat_hierarchy(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	cgroup_make("main");
	cgroup_make("child");
	cgroup_go("child");
	area = area_alloc(3, SPARSE);
	cgroup_go("main");
	queue_scan_in("child", DEFERRED_SCAN_ALL);
	expect_split(&area);
	expect_stats("child/" STAT, 3, 3, area_zero_pages(&area));
	expect_stats(STAT, 3, 3, area_zero_pages(&area));
	expect_stats("main/" STAT, 0, 0, 0);
}

static const struct test tests[] = {
	TEST("cgroup.removed_waiting", removed_waiting),
	TEST("cgroup.removed_used", removed_used),
	TEST("cgroup.removed_then_partial", removed_then_partial),
	TEST("cgroup.removed_then_freed", removed_then_freed),
	TEST("cgroup.few_are_reached", few_are_reached, .seconds = 120,
	     .disk = true),
	TEST("cgroup.stat_counts", stat_counts),
	TEST("cgroup.stat_hierarchy", stat_hierarchy),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
