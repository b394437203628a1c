// SPDX-License-Identifier: GPL-2.0
/*
 * Swap-in of huge pages beside what else decides about memory: policies of
 * nodes, and a swap device that is full.
 */
#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "thp_util.h"

#define POLICY		"swapin_enabled"
#define FAR		1		/* not the node of CPU 0 */
#define TOO_MANY	140		/* swap has place for 127 */
#define MOST_OF_THEM	100

static void want_whole(void)
{
	need_swap();
	knob_set(POLICY, "always");
	set_threshold(511);
}

static void read_one_of_each(const struct area *area)
{
	int thp;

	for (thp = 0; thp < area->thps; thp++)
		(void)*(volatile char *)area_page(area, thp * THP_PAGES + 9);
}

/* The policy of the mapping says where, not the processor that faults. */
static void to_its_node(void)
{
	unsigned long nodes = 1UL << FAR;
	struct area area = area_map(4);
	int i, thp;

	want_whole();
	stay_on_cpu(0);
	if (syscall(SYS_mbind, area.base, area_size(&area), MPOL_BIND, &nodes,
		    8 * sizeof(nodes), 0))
		skip("needs two nodes");
	for (i = 0; i < area.thps; i++)
		area_choose(&area, i, THP_PAGES, FIRST_BYTE);
	area_fill(&area);
	area_swap_out(&area);
	read_one_of_each(&area);
	expect_whole(&area, "after one page of each was read");
	for (thp = 0; thp < area.thps; thp++)
		expect(node_of(area_thp(&area, thp)) == FAR,
		       "huge page %d came back on node %d", thp,
		       node_of(area_thp(&area, thp)));
}

/* What does not fit stays, and each cluster that becomes free is of use again. */
static void swap_full(void)
{
	struct area area;
	long swapped;
	int i;

	want_whole();
	area = area_alloc(TOO_MANY, THP_PAGES);
	for (i = 0; i < 2; i++) {
		area_pageout(&area);
		swapped = smaps_kb("Swap", area.base, area_size(&area));
		swapped /= (long)(THP_SIZE / KB);
		expect(swapped >= MOST_OF_THEM && swapped < TOO_MANY,
		       "%ld huge pages are in swap", swapped);
		area_verify(&area);
		expect(area_huge(&area) >= MOST_OF_THEM,
		       "%ld huge pages came back in turn %d", area_huge(&area), i);
	}
}

static const struct test tests[] = {
	TEST("swapin.to_its_node", to_its_node, .swap = true),
	TEST("swapin.swap_full", swap_full, .swap = true, .seconds = 60),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
