// SPDX-License-Identifier: GPL-2.0
/*
 * The shrinker for underused huge pages, alone and as reclaim calls it.
 *
 * sparse_N		N of 512 pages are not zero-filled: the huge page is checked
 *			and split
 * dense_N		N is too many: the huge page is checked and stays
 * dense_512_last	the last byte of each page is not zero: all bytes are read
 * dense_512_anywhere	one byte of each page is not zero, at random
 * reclaim_N		as sparse_N, but without swap, by memory.reclaim of a quarter
 *			of the memory
 *
 * In dense_N the first byte of a page is not zero, as in most data. Checking a dense
 * huge page takes so little that there are DENSE_TIMES as many of them. Figures:
 * per_thp (times, for one huge page, less an empty scan), given_back (thps), freed
 * (pages). reclaim_N has reclaim (times, for all of it) instead of per_thp, because
 * it may give nothing back.
 */
#include <stdio.h>

#include "bench.h"

#define DENSE_TIMES	4

static long memory_pages(void)
{
	return cgroup_number("memory.current") / (long)PAGE_SIZE;
}

/* Returns how many of the pages before were freed. */
static long figure_given_back(const struct area *area, long before)
{
	long freed = before - memory_pages();

	figure("given_back", area->thps - area_huge(area), "thps");
	figure("freed", freed, "pages");
	return freed;
}

/* The first run takes longer: see bench.h. */
static void warm_up(int live, long offset)
{
	struct area area = area_scatter(1, live, offset);

	scan();
	area_free(&area);
}

static void check(int live, long offset, bool sparse)
{
	int thps = bench_thps() * (sparse ? 1 : DENSE_TIMES);
	long want = sparse ? 0 : thps, memory, freed;
	struct spent none, spent;
	struct area area;

	need_shrinker();
	warm_up(live, offset);
	none = scan();
	area = area_scatter(thps, live, offset);
	memory = memory_pages();
	expect_queued(area.thps);

	spent = scan();
	spent.time = (spent.time - none.time) / area.thps;
	spent.cpu = (spent.cpu - none.cpu) / area.thps;
	figure_spent("per_thp", spent);

	freed = figure_given_back(&area, memory);
	expect(area_huge(&area) == want, "%ld huge pages are left, not %ld",
	       area_huge(&area), want);
	/* Splitting alone frees nothing. The kernel's own memory varies. */
	expect(!sparse || freed >= (long)thps * (THP_PAGES - live) * 3 / 4,
	       "%ld pages were freed of %ld", freed,
	       (long)thps * (THP_PAGES - live));
	expect_queued(0);
}

static void sparse(long live)
{
	check(live, ANYWHERE, true);
}

static void dense(long live)
{
	check(live, FIRST, false);
}

static void dense_at(long offset)
{
	check(THP_PAGES, offset, false);
}

static void reclaim(long live)
{
	struct spent spent;
	struct area area;
	char quarter[32];
	long memory;

	need_shrinker();
	cgroup_set("memory.swap.max", "0");
	area = area_scatter(bench_thps(), live, ANYWHERE);
	memory = memory_pages();
	snprintf(quarter, sizeof(quarter), "%zu", area_size(&area) / 4);

	spent = clock_start();
	cgroup_write("memory.reclaim", quarter);
	figure_spent("reclaim", clock_stop(spent));
	figure_given_back(&area, memory);
}

static const struct test tests[] = {
	TEST_WITH("sparse_1", sparse, 1),
	TEST_WITH("sparse_40", sparse, 40),
	TEST_WITH("sparse_102", sparse, 102),
	TEST_WITH("dense_103", dense, 103),
	TEST_WITH("dense_256", dense, 256),
	TEST_WITH("dense_512", dense, THP_PAGES),
	TEST_WITH("dense_512_last", dense_at, LAST),
	TEST_WITH("dense_512_anywhere", dense_at, ANYWHERE),
	TEST_WITH("reclaim_40", reclaim, 40),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
