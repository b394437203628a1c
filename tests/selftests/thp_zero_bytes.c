// SPDX-License-Identifier: GPL-2.0
/*
 * A page with a single bit that is not zero is in use, wherever that bit is:
 * for the shrinker's check of its huge page, and for the split.
 */
#include <unistd.h>

#include "thp_util.h"

/* With one byte for each page, so many huge pages cover a whole page. */
#define THPS	(PAGE_SIZE / THP_PAGES)

static size_t live_byte(int page)
{
	return page % THP_PAGES * THPS + page / THP_PAGES;
}

static char live_bit(int page)
{
	return (char)(1 << page % 8);
}

static struct area area_of_bits(void)
{
	struct area area = area_map(THPS);
	int i;

	area_fill(&area);
	for (i = 0; i < area.thps * THP_PAGES; i++)
		area_page(&area, i)[live_byte(i)] = live_bit(i);
	return area;
}

static void expect_bits(const struct area *area)
{
	int i;
	size_t k;

	for (i = 0; i < area->thps * THP_PAGES; i++) {
		const char *page = area_page(area, i);

		for (k = 0; k < PAGE_SIZE; k++)
			expect(page[k] ==
			       (k == live_byte(i) ? live_bit(i) : 0),
			       "page %d: byte %zu is %#x", i, k,
			       (unsigned char)page[k]);
	}
}

static void every_byte_kept(void)
{
	struct area area = area_of_bits(), zero = area_alloc(1, 0);
	long before = area_rss_pages(&area), after;

	split_range(getpid(), area.base, area_size(&area));
	split_range(getpid(), zero.base, area_size(&zero));
	expect(!area_huge(&area), "%ld huge pages are not split",
	       area_huge(&area));
	/* The zeropage is not counted in it. */
	after = area_rss_pages(&area);
	expect(after == before, "%ld pages with a live bit were given back",
	       before - after);
	expect_bits(&area);
	area_expect_remapped(&zero);
}

/* At threshold 0, a single page mistaken for zero splits the huge page. */
static void every_byte_checked(void)
{
	struct area area = area_of_bits();
	struct area one_zero = area_alloc(1, THP_PAGES - 1);

	set_threshold(0);
	trigger();
	expect(area_huge(&area) == area.thps, "%ld of %d huge pages left",
	       area_huge(&area), area.thps);
	expect_bits(&area);
	expect_split(&one_zero);
}

static const struct test tests[] = {
	TEST("zero_remap.every_byte_kept", every_byte_kept),
	TEST("shrinker.every_byte_checked", every_byte_checked),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
