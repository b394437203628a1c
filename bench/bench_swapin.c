// SPDX-License-Identifier: GPL-2.0
/*
 * Huge pages without zero-filled pages are paged out whole: the cost of reading them
 * back, and whether they come back as huge pages.
 *
 * swapin_sequential.*	every 4K page is read once, in ascending order
 * swapin_random.*	every 4K page is read once, in random order
 * swapin_few.*		one page in 16 is read: shows what else the kernel reads in
 *
 * Figures: pageout and touch (times), faults (count), read (pages read from
 * swap), huge (thps mapped in the end), rss (pages in the end).
 */
#include <stdlib.h>
#include <sys/resource.h>

#include "bench.h"

#define SEED		1
#define TRIES		10
/* The program's own pages come back from swap and stay in the swap cache. */
#define OWN_CACHED	(64 * (long)PAGE_SIZE)

enum order { SEQUENTIAL, RANDOM, FEW };

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt + usage.ru_majflt;
}

/* A page that is still in the swap cache would be mapped again without reading. */
static void empty_swap_cache(void)
{
	int tries;

	wait_written();
	for (tries = 0; tries < TRIES; tries++) {
		if (cgroup_event("memory.stat", "swapcached") <= OWN_CACHED)
			return;
		cgroup_write("memory.reclaim", "64M");
	}
	fail("the swap cache does not become empty");
}

/* The pages in the order of reading. */
static int *page_order(int pages, bool random)
{
	int *order = calloc(pages, sizeof(*order));
	unsigned int seed = SEED;
	int i, other, page;

	expect(order, "no memory");
	for (i = 0; i < pages; i++)
		order[i] = i;
	for (i = pages - 1; random && i > 0; i--) {
		other = rand_r(&seed) % (i + 1);
		page = order[i];
		order[i] = order[other];
		order[other] = page;
	}
	return order;
}

static void read_pages(const struct area *area, const int *order, int count)
{
	int i;

	for (i = 0; i < count; i++)
		*(volatile char *)area_page(area, order[i]);
}

/* The first run takes longer: see bench.h. */
static void warm_up(void)
{
	struct area area = area_scatter(1, THP_PAGES, FIRST);
	int *order = page_order(THP_PAGES, false);

	page_out(&area);
	empty_swap_cache();
	read_pages(&area, order, THP_PAGES);
	area_free(&area);
	free(order);
}

static struct rise rises[] = {
	RISE("read", "pswpin", "pages"),
};

static void swapin(long how)
{
	struct spent spent;
	struct area area;
	long before;
	int *order;
	int pages;

	need_any_swap();
	set_threshold(USUAL_THRESHOLD);
	warm_up();
	area = area_scatter(bench_thps(), THP_PAGES, FIRST);
	pages = area.thps * THP_PAGES;
	order = page_order(pages, how != SEQUENTIAL);
	spent = clock_start();
	page_out(&area);
	figure_spent("pageout", clock_stop(spent));
	empty_swap_cache();
	expect(!area_rss_pages(&area), "%ld pages were not paged out",
	       area_rss_pages(&area));

	rises_begin(rises, ARRAY_SIZE(rises));
	before = faults();
	spent = clock_start();
	read_pages(&area, order, how == FEW ? pages / 16 : pages);
	spent = clock_stop(spent);
	before = faults() - before;

	figure_spent("touch", spent);
	figure("faults", before, "count");
	rises_print(rises, ARRAY_SIZE(rises));
	figure("huge", area_huge(&area), "thps");
	figure("rss", area_rss_pages(&area), "pages");
}

static const struct test tests[] = {
	TEST_SWAP("swapin_sequential", swapin, SEQUENTIAL),
	TEST_SWAP("swapin_random", swapin, RANDOM),
	TEST_SWAP("swapin_few", swapin, FEW),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
