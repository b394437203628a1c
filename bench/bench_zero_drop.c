// SPDX-License-Identifier: GPL-2.0
/*
 * Huge pages with more or fewer zero-filled pages are paged out and then unmapped:
 * the cost, what is written to swap, and what stays in memory.
 *
 * best.*	one byte in each huge page, the very first one
 * worst.*	the last byte of each 4K page: all bytes are read for nothing
 * live_N.*	one byte at random in each of N evenly spread pages
 *
 * Figures: pageout and munmap (times), written (pages, as the kernel counts them),
 * stored (bytes: memory that zram uses, or data written to the disk),
 * swapped_whole and split (thps), zero (pages found zero-filled while swapping),
 * rss (pages left). To a disk, pageout ends when all pages have been submitted;
 * on_disk is the time from the start of pageout until all pages are written.
 */
#include <sys/mman.h>

#include "bench.h"

enum { BEST = -1, WORST = -2 };		/* or the number of live pages */

static struct area fill(int thps, long what)
{
	switch (what) {
	case BEST:
		return area_scatter(thps, 1, FIRST);
	case WORST:
		return area_scatter(thps, THP_PAGES, LAST);
	default:
		return area_scatter(thps, what, ANYWHERE);
	}
}

static struct rise rises[] = {
	RISE("written", "pswpout", "pages"),
	RISE("swapped_whole", "thp_swpout", "thps"),
	RISE("split", "thp_split_page", "thps"),
	RISE("zero", "swpout_zero", "pages"),
};

/* The first run takes longer: see bench.h. */
static void warm_up(long what)
{
	struct area area = fill(1, what);

	page_out(&area);
	wait_written();
	area_free(&area);
}

static void drop(long what)
{
	struct spent spent;
	struct area area;
	double on_disk;
	long stored;

	need_any_swap();
	set_threshold(USUAL_THRESHOLD);
	warm_up(what);
	area = fill(bench_thps(), what);
	stored = swap_stored();
	rises_begin(rises, ARRAY_SIZE(rises));

	spent = clock_start();
	on_disk = -now();
	page_out(&area);
	spent = clock_stop(spent);
	wait_written();
	on_disk += now();

	figure_spent("pageout", spent);
	if (!present_test->swap)
		figure("on_disk_time", on_disk, "s");
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
