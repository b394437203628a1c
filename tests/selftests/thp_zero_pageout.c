// SPDX-License-Identifier: GPL-2.0
/*
 * Reclaim splits a huge page with its subpages on a private list. The zero ones
 * among them are freed: no swap slot, no copy, and the count of isolated pages
 * returns to zero.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "thp_util.h"

#define LIVE_PAGES	60
#define THPS		4

static void limit_swap(long pages)
{
	char text[32];

	snprintf(text, sizeof(text), "%ld", pages * (long)PAGE_SIZE);
	cgroup_set("memory.swap.max", text);
}

static bool in_swap(const struct area *area, int page)
{
	return page_has(area_page(area, page), PM_SWAP);
}

/* Pages from first on have been reclaimed: only live ones needed swap. */
static void expect_zeros_freed(const struct area *area, int first)
{
	int i;

	for (i = first; i < area->thps * THP_PAGES; i++) {
		if (area->live[i] != ZERO)
			continue;
		expect(!in_swap(area, i), "page %d: zero, but in swap", i);
		expect(is_zeropage(area_page(area, i)),
		       "page %d: zero, but not on the shared zeropage", i);
	}
}

static int live_in_swap(const struct area *area)
{
	int i, found = 0;

	for (i = 0; i < area->thps * THP_PAGES; i++)
		if (area->live[i] != ZERO && area->live[i] != GONE)
			found += in_swap(area, i);
	return found;
}

enum how { PAGEOUT, RECLAIM };

/* Swap has room for the live pages only: a zero page would take one's slot. */
static void swap_out(struct area *area, char *start, size_t size, enum how how)
{
	long room = area_live_pages(area) + (how == RECLAIM ? OTHER_PAGES : 0);
	long written = counter("pswpout");
	char text[32];

	limit_swap(room);
	if (how == PAGEOUT) {
		expect(!madvise(start, size, MADV_PAGEOUT), "MADV_PAGEOUT: %s",
		       strerror(errno));
	} else {
		/* EAGAIN only means that not all of it was reclaimed. */
		snprintf(text, sizeof(text), "%zu", size);
		cgroup_write("memory.reclaim", text);
	}
	written = counter("pswpout") - written;
	expect(written <= room, "%ld pages written to swap, but only %d live",
	       written, area_live_pages(area));
	expect_none_isolated(1);
}

static void swap_out_all(struct area *area, enum how how)
{
	int live = area_live_pages(area), swapped;

	swap_out(area, area->base, area_size(area), how);
	expect_zeros_freed(area, 0);
	swapped = live_in_swap(area);
	expect(swapped == live, "%d of %d live pages are in swap", swapped,
	       live);
	if (how == PAGEOUT)
		expect(cgroup_number("memory.swap.current") ==
		       live * (long)PAGE_SIZE, "swap holds more than %d pages",
		       live);
	area_verify(area);
}

/* Swap is too small for the whole huge page, so it is split. */
static void whole(long how)
{
	struct area area = area_alloc(THPS, LIVE_PAGES);

	need_swap();
	swap_out_all(&area, how);
}

/* Mapped by PTEs: split before swap is allocated. */
static void pte_mapped(long how)
{
	struct area area = area_alloc(THPS, LIVE_PAGES);
	int thp;

	need_swap();
	for (thp = 0; thp < THPS; thp++)
		area_drop_page(&area, thp * THP_PAGES + 5);
	swap_out_all(&area, how);
	expect(!cgroup_event("memory.swap.events", "fail"),
	       "swap was requested for a page that is not live");
}

/* MADV_PAGEOUT of a part splits first, with nothing isolated yet. */
static void part(void)
{
	struct area area = area_alloc(1, LIVE_PAGES);

	need_swap();
	swap_out(&area, area.base + MB, MB, PAGEOUT);
	expect_zeros_freed(&area, THP_PAGES / 2);
	area_verify(&area);
}

struct shared {
	struct area area;
	int reclaimed[2];
};

static void other_sharer(void *arg)
{
	struct shared *shared = arg;

	close(shared->reclaimed[1]);
	hear(shared->reclaimed[0]);
	expect_zeros_freed(&shared->area, 0);
	area_verify(&shared->area);
}

static bool any_whole(const struct area *area)
{
	int thp;

	for (thp = 0; thp < area->thps; thp++)
		if (is_compound(area_thp(area, thp)))
			return true;
	return false;
}

static void fork_shared(void)
{
	struct shared shared = { .area = area_alloc(THPS, LIVE_PAGES) };
	struct area *area = &shared.area;
	pid_t child;
	int tries;

	need_swap();
	expect(!pipe(shared.reclaimed), "pipe: %s", strerror(errno));
	child = helper_start(other_sharer, &shared);
	/* Reclaim spares what several processes have used recently. */
	for (tries = 0; any_whole(area) && tries < 10; tries++)
		swap_out(area, area->base, area_size(area), RECLAIM);
	expect(live_in_swap(area), "nothing was reclaimed");
	expect_zeros_freed(area, 0);
	tell(shared.reclaimed[1]);
	helper_join(child);
	area_verify(area);
}

static const struct test tests[] = {
	TEST_WITH("zero_remap.pageout_whole", whole, PAGEOUT, .swap = true),
	TEST_WITH("zero_remap.pageout_pte_mapped", pte_mapped, PAGEOUT,
		  .swap = true),
	TEST("zero_remap.pageout_part", part, .swap = true),
	TEST_WITH("zero_remap.reclaim_whole", whole, RECLAIM, .swap = true),
	TEST_WITH("zero_remap.reclaim_pte_mapped", pte_mapped, RECLAIM,
		  .swap = true),
	TEST("zero_remap.reclaim_fork_shared", fork_shared, .swap = true),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
