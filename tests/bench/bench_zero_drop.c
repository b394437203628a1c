// SPDX-License-Identifier: GPL-2.0
/*
 * Huge pages of which more or less is zero are paged out, and then unmapped: what
 * does that take, what is written to swap, and what is left in memory?
 *
 * best.*	one byte in each huge page, the very first one
 * worst.*	the last byte of each 4K page: all is read, and nothing gained
 * live_N.*	one byte somewhere in each of N pages that are spread evenly
 *
 * Figures: pageout and munmap (times), written (pages, as the kernel counts them),
 * stored (bytes: memory that zram uses, or what the disk was given),
 * swapped_whole and split (thps), zero (pages found to be zero on the way to
 * swap), rss (pages left). On a disk also written_back: the time from the end of
 * pageout until all is on the disk.
 */
#include <sys/mman.h>

#include "bench.h"

enum { BEST = -1, WORST = -2 };		/* or the number of live pages */

static struct area fill(long what)
{
	switch (what) {
	case BEST:
		return area_scatter(1, FIRST);
	case WORST:
		return area_scatter(THP_PAGES, LAST);
	default:
		return area_scatter(what, ANYWHERE);
	}
}

static struct rise rises[] = {
	RISE("written", "pswpout", "pages"),
	RISE("swapped_whole", "thp_swpout", "thps"),
	RISE("split", "thp_split_page", "thps"),
	RISE("zero", "swpout_zero", "pages"),
};

static void drop(long what)
{
	struct spent spent;
	struct area area;
	long stored;

	need_any_swap();
	set_threshold(MANY);
	area = fill(what);
	stored = swap_stored();
	rises_begin(rises, ARRAY_SIZE(rises));

	spent = clock_start();
	page_out(&area);
	figure_spent("pageout", clock_stop(spent));

	if (!present_test->swap) {
		double began = now();

		wait_written();
		figure("written_back_time", now() - began, "s");
	}
	rises_print(rises, ARRAY_SIZE(rises));
	figure("stored", swap_stored() - stored, "bytes");
	figure("rss", area_rss_pages(&area), "pages");
	expect(!area_huge(&area), "%ld of %d huge pages stayed",
	       area_huge(&area), area.thps);

	spent = clock_start();
	munmap(area.base, area_size(&area));
	figure_spent("munmap", clock_stop(spent));
}

static const struct test tests[] = {
	TEST_SWAP("best", drop, BEST),
	TEST_SWAP("worst", drop, WORST),
	TEST_SWAP("live_1", drop, 1),
	TEST_SWAP("live_16", drop, 16),
	TEST_SWAP("live_64", drop, 64),
	TEST_SWAP("live_102", drop, 102),
	TEST_SWAP("live_103", drop, 103),
	TEST_SWAP("live_256", drop, 256),
	TEST_SWAP("live_512", drop, 512),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
