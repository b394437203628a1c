// SPDX-License-Identifier: GPL-2.0
/*
 * KSM splits huge pages too: their zero pages are then left to KSM. And a
 * process must not be able to discard a page that KSM shares.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "thp_util.h"

#define THPS		2
#define BATCH		20
#define SLEEP_MS	50
#define POLL_US		100000
#define EQUAL		64

static void ksm_start(bool use_zero_pages)
{
	if (!knob_exists("../ksm/run"))
		skip("no KSM (CONFIG_KSM)");
	knob_set_number("../ksm/use_zero_pages", use_zero_pages);
	knob_set_number("../ksm/pages_to_scan", BATCH);
	knob_set_number("../ksm/sleep_millisecs", SLEEP_MS);
	knob_set_number("../ksm/run", 1);
}

/* Memory is given back no faster than KSM is allowed to scan pages. */
static void zeros_at_its_rate(long use_zero_pages)
{
	struct area area = area_map(THPS);
	long dropped = counter(DROPPED), rss, before;
	double end = now() + 60, last, elapsed;

	set_threshold(USUAL_THRESHOLD);
	area_fill(&area);
	rss = area_rss_pages(&area);
	expect(!madvise(area.base, area_size(&area), MADV_MERGEABLE),
	       "MADV_MERGEABLE: %s", strerror(errno));
	ksm_start(use_zero_pages);
	last = now();
	while (area_huge(&area)) {
		expect(now() < end, "KSM did not come to all huge pages");
		usleep(POLL_US);
		before = rss;
		rss = area_rss_pages(&area);
		elapsed = now() - last;
		last += elapsed;
		/* A batch may have begun before, and one may be unfinished. */
		expect(before - rss <= BATCH * (elapsed * 1000 / SLEEP_MS + 2),
		       "%ld pages gone in %.1f s", before - rss, elapsed);
	}
	expect(counter(DROPPED) == dropped, DROPPED " rose by %ld",
	       counter(DROPPED) - dropped);
	area_verify(&area);
}

/* The exception is for KSM alone: what it leaves whole is scanned as usual. */
static void others_still_split(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(THPS, SPARSE);
	expect(!madvise(area.base, area_size(&area), MADV_MERGEABLE),
	       "MADV_MERGEABLE: %s", strerror(errno));
	trigger();
	expect_split(&area);
}

/* Small pages; some of them have the content of those at origin. */
static struct area mergeable_like(const char *origin)
{
	struct area area = area_map(1);

	if (origin)
		area.origin = (uintptr_t)origin;
	area_choose(&area, 0, EQUAL, FIRST_BYTE);
	area_fill_small(&area);
	expect(!madvise(area.base, area_size(&area), MADV_NOHUGEPAGE) &&
	       !madvise(area.base, area_size(&area), MADV_MERGEABLE),
	       "madvise: %s", strerror(errno));
	return area;
}

static bool merged(const struct area *a, const struct area *b)
{
	unsigned long pfn;
	int i;

	for (i = 0; i < THP_PAGES; i++) {
		pfn = pfn_of(area_page(a, i));
		if (a->live[i] != ZERO &&
		    (!pfn || pfn_of(area_page(b, i)) != pfn))
			return false;
	}
	return true;
}

static void wait_merged(const struct area *a, const struct area *b)
{
	double end = now() + 60;

	while (!merged(a, b)) {
		expect(now() < end, "KSM did not merge equal pages");
		usleep(POLL_US);
	}
}

/*
 * KSM's pages outlive the pages they were made of. A process that gives up the
 * last of those must not affect pages that are merged later.
 */
static void survives_lazyfree(void)
{
	struct area first, second, third;

	ksm_start(false);
	knob_set_number("../ksm/pages_to_scan", 10 * THP_PAGES);
	first = mergeable_like(NULL);
	second = mergeable_like(first.base);
	wait_merged(&first, &second);
	area_free(&second);
	expect(!madvise(first.base, area_size(&first), MADV_FREE),
	       "MADV_FREE: %s", strerror(errno));
	third = mergeable_like(first.base);
	wait_merged(&first, &third);
	area_free(&first);
	expect(!madvise(third.base, area_size(&third), MADV_PAGEOUT),
	       "MADV_PAGEOUT: %s", strerror(errno));
	area_verify(&third);
}

/* Equal pages are merged wherever they are: in what came back from swap whole. */
static void swapped_in(void)
{
	struct area area = area_map(1), equal;

	need_swap();
	knob_set("swapin_enabled", "always");
	set_threshold(511);
	area_choose(&area, 0, EQUAL, FIRST_BYTE);
	area_fill(&area);
	area_swap_out(&area);
	expect(!madvise(area.base, area_size(&area), MADV_MERGEABLE),
	       "MADV_MERGEABLE: %s", strerror(errno));
	equal = mergeable_like(area.base);
	(void)*(volatile char *)area.base;
	expect_whole(&area, "after it was read");
	ksm_start(false);
	knob_set_number("../ksm/pages_to_scan", 10 * THP_PAGES);
	wait_merged(&area, &equal);
	memset(area_page(&area, 0), 0, PAGE_SIZE);
	area_write(&area, 0, LAST_BYTE);
	area_verify(&area);
	area_verify(&equal);
}

static const struct test tests[] = {
	TEST_WITH("ksm.zeros_at_its_rate", zeros_at_its_rate, false,
		  .seconds = 90),
	TEST_WITH("ksm.zeropages_at_its_rate", zeros_at_its_rate, true,
		  .seconds = 90),
	TEST("ksm.others_still_split", others_still_split),
	TEST("ksm.survives_lazyfree", survives_lazyfree, .swap = true,
	     .seconds = 200),
	TEST("ksm.swapped_in", swapped_in, .swap = true, .seconds = 100),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
