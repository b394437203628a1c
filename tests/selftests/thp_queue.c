// SPDX-License-Identifier: GPL-2.0
/*
 * What is in the deferred split queue, the order in which it is scanned, and
 * that nothing is lost from it.
 */
#include <dirent.h>
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thp_util.h"

/* --- what is queued --- */

static void fault(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(5, SPARSE);
	expect_queued(5);
	trigger();
	expect_queued(0);
	expect_split(&area);
}

static struct area small_area(int thps, int live_pages)
{
	struct area area = area_map(thps);
	int thp;

	for (thp = 0; thp < thps; thp++)
		area_choose(&area, thp, live_pages, MIDDLE_BYTE);
	area_fill_small(&area);
	return area;
}

static void madv_collapse(void)
{
	struct area area = small_area(3, SPARSE);

	set_threshold(USUAL_THRESHOLD);
	expect(!madvise(area.base, area_size(&area), MADV_COLLAPSE),
	       "MADV_COLLAPSE: %s", strerror(errno));
	expect(area_huge(&area) == 3, "MADV_COLLAPSE made no huge pages");
	expect_queued(3);
	trigger();
	expect_split(&area);
}

static void khugepaged_start(void)
{
	knob_set_number("khugepaged/pages_to_scan", 65536);
	knob_set_number("khugepaged/alloc_sleep_millisecs", 10);
	knob_set_number("khugepaged/scan_sleep_millisecs", 10);
}

static void khugepaged_stop(void)
{
	knob_set_number("khugepaged/scan_sleep_millisecs", 1000000000);
}

/* Waits until the area has that many huge pages, or the time is over. */
static bool wait_huge(const struct area *area, int thps, double seconds)
{
	double end = now() + seconds;

	while (area_huge(area) != thps && now() < end)
		usleep(50000);
	return area_huge(area) == thps;
}

static void collapsed_behind(void)
{
	struct area area = small_area(3, SPARSE);

	set_threshold(USUAL_THRESHOLD);
	khugepaged_start();
	expect(wait_huge(&area, 3, 20), "khugepaged made no huge pages");
	khugepaged_stop();
	expect_queued(3);
	trigger();
	expect_split(&area);
}

/* khugepaged must not collapse what the shrinker has just split. */
static void no_ping_pong(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(2, SPARSE);
	trigger();
	expect_split(&area);
	khugepaged_start();
	expect(!wait_huge(&area, 2, 3), "khugepaged collapsed it again");
	expect_split(&area);

	set_threshold(511);
	expect(wait_huge(&area, 2, 20),
	       "khugepaged does not collapse what is not underused");
	khugepaged_stop();
	area_verify(&area);
}

static void allocate_and_exit(void *unused)
{
	(void)unused;
	area_alloc(16, SPARSE);
	expect_queued(16);
}

static void empty_after_exit(void)
{
	set_threshold(USUAL_THRESHOLD);
	helper_join(helper_start(allocate_and_exit, NULL));
	expect_queued(0);
}

#define SURPLUS	"../hugepages/hugepages-2048kB/nr_overcommit_hugepages"

/* Hugetlb pages use the same space for other flags. */
static void hugetlb_stays_out(void)
{
	struct area area = area_map(4);
	int thp;

	if (!knob_exists(SURPLUS))
		skip("no hugetlb pages of 2 MiB");
	set_threshold(USUAL_THRESHOLD);
	knob_set_number(SURPLUS, area.thps);
	expect(mmap(area.base, area_size(&area), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB,
		    -1, 0) == area.base, "MAP_HUGETLB: %s", strerror(errno));
	for (thp = 0; thp < area.thps; thp++)
		area_choose(&area, thp, SPARSE, MIDDLE_BYTE);
	area_fill_any(&area);
	expect_queued(0);
	trigger();
	area_verify(&area);
	area_free(&area);

	/* Their memory works for transparent huge pages afterwards. */
	area = area_alloc(4, SPARSE);
	expect_queued(4);
	trigger();
	expect_split(&area);
}

/* --- partially mapped --- */

/* A short scan takes those first that have memory which nothing maps. */
static void partial_first(void)
{
	struct area kept, partial;

	set_threshold(511);
	kept = area_alloc(64, SPARSE);
	partial = area_alloc(4, DENSE);
	area_make_partial(&partial);
	queue_scan(4);
	expect(!area_whole(&partial), "%d of 4 are not split",
	       area_whole(&partial));
	expect(area_huge(&kept) == 64, "%ld of 64 huge pages left",
	       area_huge(&kept));
	area_verify(&kept);
	area_verify(&partial);
}

/* One that cannot be split does not use up the budget of a scan. */
static void partial_pinned_holds_up_nobody(void)
{
	struct area stuck, area;
	struct pin pin;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(4, SPARSE);
	stuck = area_alloc(1, DENSE);
	pin = pin_page(area_page(&stuck, 9));
	area_make_partial(&stuck);
	queue_scan(5);
	expect_split(&area);
	expect(area_whole(&stuck) == 1, "split although it is pinned");
	unpin(pin);
	end_wait();
	trigger();
	expect(!area_whole(&stuck), "not split after the pin was gone");
	area_verify(&stuck);
}

static void partial_at_any_use(void)
{
	struct area area;

	set_threshold(511);
	area = area_alloc(4, THP_PAGES);
	area_make_partial(&area);
	trigger();
	expect(!area_whole(&area), "%d of 4 are not split", area_whole(&area));
	area_verify(&area);
	expect_queued(0);
}

static void partial_when_off(void)
{
	struct area area;

	knob_set("shrink_underused", "0");
	area = area_alloc(4, SPARSE);
	area_make_partial(&area);
	trigger();
	expect(!area_whole(&area), "%d of 4 are not split", area_whole(&area));
	area_expect_kept(&area);
	area_verify(&area);
	expect_queued(0);
}

/* Found in use and removed from the queue, then partially unmapped. */
static void partial_after_used(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(4, DENSE);
	trigger();
	expect_queued(0);
	area_make_partial(&area);
	expect_queued(4);
	trigger();
	expect(!area_whole(&area), "%d of 4 are not split", area_whole(&area));
	area_verify(&area);
}

/* --- mapped by PTEs, but all of it --- */

static void pte_mapped_dense_kept(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(4, DENSE);
	area_map_by_ptes(&area);
	trigger();
	expect(area_whole(&area) == 4, "%d of 4 are split",
	       4 - area_whole(&area));
	area_verify(&area);
	area_make_partial(&area);
	trigger();
	expect(!area_whole(&area), "%d of 4 are not split", area_whole(&area));
	area_verify(&area);
}

static void pte_mapped_sparse_split(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(4, SPARSE);
	area_map_by_ptes(&area);
	trigger();
	expect_split(&area);
}

static void failed_split_kept(void)
{
	struct area area;
	struct pin pin;
	int i;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(1, DENSE);
	pin = pin_page(area_page(&area, 9));
	for (i = 0; i < 20; i++)
		split_range(getpid(), area.base, area_size(&area));
	unpin(pin);
	trigger();
	expect(area_whole(&area) == 1, "split after a split that failed");
	area_verify(&area);
}

/* Reclaim of one node leaves the huge pages of another alone. */
static void other_node_kept(void)
{
	unsigned long node_0 = 1;
	struct area area;

	expect(!syscall(SYS_set_mempolicy, MPOL_BIND, &node_0,
			8 * sizeof(node_0)), "set_mempolicy: %s",
	       strerror(errno));
	area = area_alloc(4, SPARSE);
	set_threshold(USUAL_THRESHOLD);
	queue_scan_node(other_node(area_thp(&area, 0)), DEFERRED_SCAN_ALL);
	expect(area_huge(&area) == 4, "%ld of 4 huge pages left",
	       area_huge(&area));
	expect_queued(4);
	queue_scan_node(0, DEFERRED_SCAN_ALL);
	expect_split(&area);
}

static void migrated_dense_kept(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(4, DENSE);
	area_map_by_ptes(&area);
	area_migrate(&area);
	expect(area_whole(&area) == 4, "migration split %d of 4",
	       4 - area_whole(&area));
	trigger();
	expect(area_whole(&area) == 4, "%d of 4 are split",
	       4 - area_whole(&area));
	area_verify(&area);
}

/* --- races --- */

#define ROUNDS		20
#define RACE_THPS	8

static atomic_bool stop;

static void *scan_all_the_time(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop))
		trigger();
	return NULL;
}

static pthread_t scanner_start(void)
{
	pthread_t scanner;

	atomic_store(&stop, false);
	expect(!pthread_create(&scanner, NULL, scan_all_the_time, NULL),
	       "no thread");
	return scanner;
}

/* Later scans, when all is quiet, find what could not be split meanwhile. */
static void scanner_stop(pthread_t scanner)
{
	int i;

	atomic_store(&stop, true);
	pthread_join(scanner, NULL);
	end_wait();
	for (i = 0; i < 3; i++)
		trigger();
}

/* Partially unmapped during a scan: must not be lost. */
static void partial_while_scanned(void)
{
	int round, thp;

	set_threshold(USUAL_THRESHOLD);
	for (round = 0; round < ROUNDS; round++) {
		struct area area = area_alloc(RACE_THPS, DENSE);
		pthread_t scanner = scanner_start();

		for (thp = RACE_THPS - 1; thp >= 0; thp--)
			area_drop_page(&area, thp * THP_PAGES + 100);
		scanner_stop(scanner);
		expect(!area_whole(&area), "round %d: %d of %d forgotten",
		       round, area_whole(&area), RACE_THPS);
		area_verify(&area);
		area_free(&area);
	}
	expect_queued(0);
}

/* Each write after fork() locks its huge page for a moment. */
static void lock_pages(struct area *area)
{
	int thp;
	pid_t pid = fork();

	expect(pid >= 0, "fork: %s", strerror(errno));
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	for (thp = 0; thp < area->thps; thp++)
		touch(area_page(area, thp * THP_PAGES + 1));
}

/* A scan that cannot lock a huge page leaves it to the next scan. */
static void locked_stays_queued(void)
{
	int round;

	set_threshold(USUAL_THRESHOLD);
	for (round = 0; round < ROUNDS; round++) {
		struct area area = area_alloc(RACE_THPS, SPARSE);
		pthread_t scanner = scanner_start();

		lock_pages(&area);
		scanner_stop(scanner);
		expect(!area_whole(&area), "round %d: %d of %d forgotten",
		       round, area_whole(&area), RACE_THPS);
		area_verify(&area);
		area_free(&area);
	}
	expect_queued(0);
}

static const struct test tests[] = {
	TEST("queue.fault", fault),
	TEST("queue.madv_collapse", madv_collapse),
	TEST("queue.khugepaged", collapsed_behind, .seconds = 60),
	TEST("queue.no_ping_pong", no_ping_pong, .seconds = 60),
	TEST("queue.empty_after_exit", empty_after_exit),
	TEST("queue.hugetlb_stays_out", hugetlb_stays_out),
	TEST("queue.partial_first", partial_first),
	TEST("queue.partial_pinned_holds_up_nobody",
	     partial_pinned_holds_up_nobody),
	TEST("queue.partial_at_any_use", partial_at_any_use),
	TEST("queue.partial_when_off", partial_when_off),
	TEST("queue.partial_after_used", partial_after_used),
	TEST("queue.pte_mapped_dense_kept", pte_mapped_dense_kept),
	TEST("queue.pte_mapped_sparse_split", pte_mapped_sparse_split),
	TEST("queue.failed_split_kept", failed_split_kept),
	TEST("queue.migrated_dense_kept", migrated_dense_kept),
	TEST("queue.other_node_kept", other_node_kept),
	TEST("queue.partial_while_checked", partial_while_scanned,
	     .seconds = 60),
	TEST("queue.locked_stays_queued", locked_stays_queued, .seconds = 60),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
