// SPDX-License-Identifier: GPL-2.0
/*
 * Which huge pages the shrinker scans, and how it checks them: one with more
 * zero-filled 4K pages than the threshold is underused, at the time of the
 * scan.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "thp_util.h"

/*
 * Two huge pages, with the live pages towards the start and towards the end: a
 * scan that stops early sees the zero pages at different times.
 */
static struct area area_with_zeros(int zeros)
{
	struct area area = area_map(2);
	int i;

	area_choose(&area, 0, THP_PAGES - zeros, WHOLE);
	for (i = 0; i < THP_PAGES; i++)
		area.live[2 * THP_PAGES - 1 - i] = area.live[i];
	area_fill(&area);
	return area;
}

/* --- the threshold --- */

/* At the threshold a huge page is kept; with one more zero page it is split. */
static void threshold_edge(long threshold)
{
	struct area at = area_with_zeros(threshold);
	struct area above = area_with_zeros(threshold + 1);

	set_threshold(threshold);
	trigger();
	expect_whole(&at, "at the threshold");
	expect_split(&above);
}

/* At the largest threshold, all 512 pages have to be zero. */
static void all_zero_at_511(void)
{
	struct area zero = area_with_zeros(THP_PAGES);
	long before = area_rss_pages(&zero);

	set_threshold(511);
	trigger();
	expect_split(&zero);
	expect(before == 2 * THP_PAGES && !area_rss_pages(&zero),
	       "%ld pages are left", area_rss_pages(&zero));
}

static void one_live_at_511(long how)
{
	struct area area = area_map(1), zero = area_with_zeros(THP_PAGES);

	area_choose(&area, 0, 1, how);
	/* The live page is not the first one that a scan reads. */
	area.live[511] = area.live[0];
	area.live[0] = ZERO;
	area_fill(&area);
	set_threshold(511);
	trigger();
	expect_whole(&area, "one live page");
	expect_split(&zero);
}

static void follows_khugepaged(void)
{
	struct area area = area_alloc(2, SPARSE);

	knob_set("underused_max_ptes_none", "khugepaged");
	knob_set_number("khugepaged/max_ptes_none", 511);
	trigger();
	expect_whole(&area, "at 511");

	area_free(&area);
	area = area_alloc(2, SPARSE);
	knob_set_number("khugepaged/max_ptes_none", USUAL_THRESHOLD);
	trigger();
	expect_split(&area);
}

static void own_threshold_wins(void)
{
	struct area area = area_alloc(2, SPARSE);

	knob_set_number("khugepaged/max_ptes_none", USUAL_THRESHOLD);
	knob_set_number("underused_max_ptes_none", 511);
	trigger();
	expect_whole(&area, "at its own threshold of 511");

	area_free(&area);
	area = area_alloc(2, SPARSE);
	knob_set_number("khugepaged/max_ptes_none", 511);
	knob_set_number("underused_max_ptes_none", USUAL_THRESHOLD);
	trigger();
	expect_split(&area);
}

/* --- decided when scanned, not when queued --- */

static void switched_on_later(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	knob_set("shrink_underused", "0");
	area = area_alloc(4, SPARSE);
	trigger();
	expect_whole(&area, "switched off");
	knob_set("shrink_underused", "1");
	trigger();
	expect_split(&area);
}

static void switched_off_later(void)
{
	struct area area;
	long scanned = counter(SCANNED);

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(4, SPARSE);
	knob_set("shrink_underused", "0");
	trigger();
	expect_whole(&area, "switched off");
	expect(counter(SCANNED) == scanned, SCANNED " rose");
}

static void threshold_lowered_later(void)
{
	struct area area;

	set_threshold(511);
	area = area_alloc(4, SPARSE);
	set_threshold(USUAL_THRESHOLD);
	trigger();
	expect_split(&area);
}

/* --- what is counted --- */

static void counters_exact(void)
{
	struct area sparse, dense;
	long scanned, split, dropped;

	set_threshold(USUAL_THRESHOLD);
	sparse = area_alloc(7, SPARSE);
	dense = area_alloc(5, DENSE);
	scanned = counter(SCANNED);
	split = counter(SPLIT);
	dropped = counter(DROPPED);
	trigger();
	scanned = counter(SCANNED) - scanned;
	split = counter(SPLIT) - split;
	dropped = counter(DROPPED) - dropped;
	expect(scanned == 12, SCANNED " rose by %ld, not 12", scanned);
	expect(split == 7, SPLIT " rose by %ld, not 7", split);
	expect(dropped == area_zero_pages(&sparse),
	       DROPPED " rose by %ld, not %d", dropped,
	       area_zero_pages(&sparse));
	expect_split(&sparse);
	expect_whole(&dense, "dense");
}

static void used_leaves_queue(void)
{
	struct area area;
	long scanned;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(6, DENSE);
	expect(queue_count() == 6, "%ld huge pages queued, not 6",
	       queue_count());
	trigger();
	expect(!queue_count(), "%ld huge pages still queued", queue_count());
	scanned = counter(SCANNED);
	trigger();
	expect(counter(SCANNED) == scanned, "scanned a second time");
	expect_whole(&area, "dense");
}

/* --- what is not scanned --- */

static void mlocked(void)
{
	struct area area;
	long scanned;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(3, SPARSE);
	expect(!mlock(area.base, area_size(&area)), "mlock: %s",
	       strerror(errno));
	scanned = counter(SCANNED);
	trigger();
	expect_whole(&area, "locked");
	expect(counter(SCANNED) == scanned, "scanned while locked");
	expect(!munlock(area.base, area_size(&area)), "munlock: %s",
	       strerror(errno));
	end_wait();
	trigger();
	expect_split(&area);
}

/* A page of each huge page on its own loses and regains a permission. */
static void map_by_ptes(struct area *area)
{
	int thp;

	for (thp = 0; thp < area->thps; thp++) {
		char *page = area_thp(area, thp);

		expect(!mprotect(page, PAGE_SIZE, PROT_READ) &&
		       !mprotect(page, PAGE_SIZE, PROT_READ | PROT_WRITE),
		       "mprotect: %s", strerror(errno));
	}
}

#define LOCKED		3
#define OTHER_FAULTS	8

static long minor_faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static void expect_locked_whole(const struct area *area)
{
	expect(area_whole(area) == LOCKED, "%d of %d are split while locked",
	       LOCKED - area_whole(area), LOCKED);
}

/* Mapped by PTEs, a huge page is not counted as mlocked. */
static void mlocked_by_ptes(void)
{
	unsigned long pfns[LOCKED * THP_PAGES];
	long split, faults;
	struct area area;
	int i;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(LOCKED, SPARSE);
	expect(!mlock(area.base, area_size(&area)), "mlock: %s",
	       strerror(errno));
	map_by_ptes(&area);
	for (i = 0; i < LOCKED * THP_PAGES; i++)
		pfns[i] = pfn_of(area_page(&area, i));
	split = counter("thp_split_page");
	trigger();
	end_wait();
	cgroup_write("memory.reclaim", "4M");
	expect_locked_whole(&area);
	expect(counter("thp_split_page") == split, "a split while locked");
	end_wait();
	/* This splits what others have, too. */
	file_write("/proc/sys/vm/drop_caches", "2");
	expect_locked_whole(&area);
	for (i = 0; i < LOCKED * THP_PAGES; i++)
		expect(pfn_of(area_page(&area, i)) == pfns[i],
		       "page %d has moved", i);
	faults = minor_faults();
	area_verify(&area);
	faults = minor_faults() - faults;
	expect(faults <= OTHER_FAULTS, "%ld page faults", faults);
	expect(!munlock(area.base, area_size(&area)), "munlock: %s",
	       strerror(errno));
	end_wait();
	trigger();
	expect_split(&area);
}

/* The kernel reads so many pages to the end before it trusts the ends of all. */
#define SAMPLES		8

/* Where every page is empty at both ends, only reading all of it tells. */
static void looks_empty(void)
{
	struct area area;
	long split, dropped;
	int thp, page;

	set_threshold(USUAL_THRESHOLD);
	area = area_map(3);
	for (thp = 0; thp < area.thps; thp++) {
		area_choose(&area, thp, THP_PAGES, MIDDLE_BYTE);
		for (page = 0; page < THP_PAGES; page += THP_PAGES / (SAMPLES - 1))
			area.live[thp * THP_PAGES + page] = ZERO;
	}
	area_fill(&area);
	split = counter("thp_split_page");
	dropped = counter(DROPPED);
	expect_queued(3);
	trigger();
	expect_whole(&area, "in use");
	expect(area_huge(&area) == 3, "%ld of 3 are mapped by a PMD",
	       area_huge(&area));
	expect(counter("thp_split_page") == split &&
	       counter(DROPPED) == dropped, "split, or lost a page");
	expect_queued(0);
	area_verify(&area);
}

static void pinned(void)
{
	struct area area;
	struct pin pin;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(1, SPARSE);
	pin = pin_page(area_page(&area, 3));
	trigger();
	trigger();
	expect_whole(&area, "pinned");
	unpin(pin);
	end_wait();
	expect(queue_count() == 1, "not queued any more");
	trigger();
	expect_split(&area);
}

/*
 * Poison splits a huge page at once, unless it is pinned: then the shrinker
 * meets a whole one with a page that must not be read.
 *
 * The page stays poisoned until the next boot. The kernel never gets it back:
 * without its poison, it would keep its block of memory from going offline.
 */
static void poison_inside(void)
{
	struct area area, other;
	unsigned long pfn;
	struct pin pin;
	long scanned;
	char *bad;

	if (!getenv("THP_TEST_READ_ERRORS"))
		skip("poisons a page for good: not without THP_TEST_READ_ERRORS=1");
	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(1, SPARSE);
	other = area_alloc(1, SPARSE);
	bad = area_page(&area, 77);
	pfn = pfn_of(bad);
	pin = pin_page(area_page(&area, 3));
	if (!madvise(bad, PAGE_SIZE, MADV_HWPOISON))
		fail("a pinned huge page was poisoned as if it were split");
	if (errno == EINVAL)
		skip("no MADV_HWPOISON (CONFIG_MEMORY_FAILURE)");
	unpin(pin);
	scanned = counter(SCANNED);
	trigger();
	expect(area_huge(&area) == 1, "split in spite of its poison");
	expect_split(&other);
	expect(counter(SCANNED) == scanned + 1, SCANNED " rose by %ld, not 1",
	       counter(SCANNED) - scanned);

	split_range(getpid(), area.base, area_size(&area));
	expect(pfn_of(bad) == pfn, "the poisoned page was replaced");
	area_drop_page(&area, 77);
	expect_split(&area);
}

/* --- how the kernel itself starts a scan --- */

static void by_drop_caches(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(4, SPARSE);
	expect(!file_write("/proc/sys/vm/drop_caches", "2"),
	       "vm.drop_caches cannot be written");
	expect_split(&area);
}

/* Requests more than all other memory of the cgroup. */
static void by_cgroup_reclaim(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(16, SPARSE);
	cgroup_set("memory.swap.max", "0");
	cgroup_write("memory.reclaim", "32M");
	expect_split(&area);
}

static const struct test tests[] = {
	TEST_WITH("shrinker.threshold_edge_0", threshold_edge, 0),
	TEST_WITH("shrinker.threshold_edge_1", threshold_edge, 1),
	TEST_WITH("shrinker.threshold_edge_255", threshold_edge, 255),
	TEST_WITH("shrinker.threshold_edge_409", threshold_edge, 409),
	TEST_WITH("shrinker.threshold_edge_510", threshold_edge, 510),
	TEST("shrinker.all_zero_at_511", all_zero_at_511),
	TEST_WITH("shrinker.one_live_at_511", one_live_at_511, LAST_BYTE),
	TEST("shrinker.follows_khugepaged", follows_khugepaged),
	TEST("shrinker.own_threshold_wins", own_threshold_wins),
	TEST("shrinker.switched_on_later", switched_on_later),
	TEST("shrinker.switched_off_later", switched_off_later),
	TEST("shrinker.threshold_lowered_later", threshold_lowered_later),
	TEST("shrinker.counters_exact", counters_exact),
	TEST("shrinker.used_leaves_queue", used_leaves_queue),
	TEST("shrinker.mlocked_not_checked", mlocked),
	TEST("shrinker.mlocked_by_ptes", mlocked_by_ptes),
	TEST("shrinker.looks_empty", looks_empty),
	TEST("shrinker.pinned_stays_queued", pinned),
	TEST("shrinker.poisoned_not_checked", poison_inside),
	TEST("shrinker.drop_caches", by_drop_caches),
	TEST("shrinker.cgroup_reclaim", by_cgroup_reclaim),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
