// SPDX-License-Identifier: GPL-2.0
/*
 * Huge pages without zero-filled pages are paged out whole: the cost of reading them
 * back, and whether they come back as huge pages.
 *
 * swapin_sequential.*	every 4K page is read once, in ascending order
 * swapin_random.*	every 4K page is read once, in random order
 * swapin_touched_N.*	N pages of each huge page are read, in random order: what else
 *			does the kernel read in?
 * swapin_unadvised.*	one page in 16 is read, of memory without MADV_HUGEPAGE
 * swapin_thrash.*	twice as much as the cgroup may have is read in random order
 *
 * Figures: pageout and touch (times), faults (count), read (pages read from
 * swap), huge (thps mapped in the end), huge_share (of all), rss (pages in the end).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "bench.h"

#define SEED		1
#define TRIES		10
/* The program's own pages come back from swap and stay in the swap cache. */
#define OWN_CACHED	(64 * (long)PAGE_SIZE)
#define THRASH_PAGES	20000

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

static void shuffle(int *order, int count)
{
	unsigned int seed = SEED;
	int i, other, page;

	for (i = count - 1; i > 0; i--) {
		other = rand_r(&seed) % (i + 1);
		page = order[i];
		order[i] = order[other];
		order[other] = page;
	}
}

/* So many pages of each huge page, evenly spread, in ascending order. */
static int *choose(int thps, int of_each)
{
	int *order = calloc(thps * of_each, sizeof(*order));
	int i;

	expect(order, "no memory");
	for (i = 0; i < thps * of_each; i++)
		order[i] = i / of_each * THP_PAGES +
			   i % of_each * (THP_PAGES / of_each);
	return order;
}

static void read_pages(const struct area *area, const int *order, int count)
{
	int i;

	for (i = 0; i < count; i++)
		*(volatile char *)area_page(area, order[i]);
}

static void touch_one(void)
{
	struct area area = area_scatter(1, THP_PAGES, FIRST);
	int *order = choose(1, THP_PAGES);

	page_out(&area);
	empty_swap_cache();
	read_pages(&area, order, THP_PAGES);
	area_free(&area);
	free(order);
}

/* The first run takes longer, see bench.h: of both ways, as either may be measured. */
static void prepare(void)
{
	const char *policy = getenv("BENCH_SWAPIN");

	need_any_swap();
	set_threshold(USUAL_THRESHOLD);
	touch_one();
	if (policy)
		knob_set("swapin_enabled", policy);
	touch_one();
}

static struct rise rises[] = {
	RISE("read", "pswpin", "pages"),
};

static void measure(struct area *area, const int *order, int count)
{
	struct spent spent;
	long before;

	spent = clock_start();
	page_out(area);
	figure_spent("pageout", clock_stop(spent));
	empty_swap_cache();
	expect(!area_rss_pages(area), "%ld pages were not paged out",
	       area_rss_pages(area));

	rises_begin(rises, ARRAY_SIZE(rises));
	before = faults();
	spent = clock_start();
	read_pages(area, order, count);
	spent = clock_stop(spent);
	before = faults() - before;

	figure_spent("touch", spent);
	figure("faults", before, "count");
	rises_print(rises, ARRAY_SIZE(rises));
	figure("huge", area_huge(area), "thps");
	figure("huge_share", (double)area_huge(area) / area->thps, "share");
	figure("rss", area_rss_pages(area), "pages");
}

static void swapin(int of_each, bool in_order)
{
	struct area area;
	int *order;

	prepare();
	area = area_scatter(bench_thps(), THP_PAGES, FIRST);
	order = choose(area.thps, of_each);
	if (!in_order)
		shuffle(order, area.thps * of_each);
	measure(&area, order, area.thps * of_each);
}

static void sequential(long unused)
{
	(void)unused;
	swapin(THP_PAGES, true);
}

static void touched(long of_each)
{
	swapin(of_each, false);
}

static void unadvised(long of_each)
{
	struct area area;
	int *order;

	prepare();
	knob_set("enabled", "always");
	area = area_map(bench_thps());
	/* Another mapping in its place, without the advice. */
	expect(mmap(area.base, area_size(&area), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	       area.base, "mmap failed");
	memset(area.live, FIRST_BYTE, area.thps * THP_PAGES);
	area_fill(&area);
	order = choose(area.thps, of_each);
	shuffle(order, area.thps * of_each);
	measure(&area, order, area.thps * of_each);
}

static void read_at_random(const struct area *area, unsigned int *seed)
{
	int i;

	for (i = 0; i < THRASH_PAGES; i++)
		*(volatile char *)area_page(area, rand_r(seed) %
					    (area->thps * THP_PAGES));
}

static void thrash(long unused)
{
	unsigned int seed = SEED;
	struct spent spent;
	struct area area;
	char limit[32];
	long before;

	(void)unused;
	prepare();
	area = area_scatter(bench_thps(), THP_PAGES, FIRST);
	snprintf(limit, sizeof(limit), "%zu", area_size(&area) / 2);
	cgroup_set("memory.max", limit);
	/* The new limit has made more room than it had to. */
	read_at_random(&area, &seed);
	rises_begin(rises, ARRAY_SIZE(rises));
	before = faults();
	spent = clock_start();
	read_at_random(&area, &seed);
	figure_spent("touch", clock_stop(spent));
	figure("faults", faults() - before, "count");
	rises_print(rises, ARRAY_SIZE(rises));
}

#define TEST_ALL(name, run, arg)					\
	TEST_SWAP(name, run, arg), TEST_RAM(name, run, arg)

static const struct test tests[] = {
	TEST_ALL("swapin_sequential", sequential, 0),
	TEST_ALL("swapin_random", touched, THP_PAGES),
	TEST_ALL("swapin_touched_1", touched, 1),
	TEST_ALL("swapin_touched_8", touched, 8),
	TEST_ALL("swapin_touched_64", touched, 64),
	TEST_ALL("swapin_unadvised", unadvised, THP_PAGES / 16),
	TEST_ALL("swapin_thrash", thrash, 0),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
