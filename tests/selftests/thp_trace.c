// SPDX-License-Identifier: GPL-2.0
/* The tracepoint that reports the outcome of each check. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "thp_util.h"

#define JUDGE	"huge_memory/mm_thp_judge"

static void expect_events(const char *verdict, int want)
{
	int found = trace_lines("mm_thp_judge:", verdict);

	expect(found == want, "%d events with %s, not %d", found, verdict,
	       want);
}

/* Each verdict that user space can provoke reliably, and no other. */
static void check_verdicts(void)
{
	struct area sparse, dense, partial, locked, pinned;
	struct pin pin;

	set_threshold(USUAL_THRESHOLD);
	sparse = area_alloc(3, SPARSE);
	dense = area_alloc(2, DENSE);
	partial = area_alloc(4, DENSE);
	area_make_partial(&partial);
	locked = area_alloc(1, SPARSE);
	expect(!mlock(locked.base, area_size(&locked)), "mlock: %s",
	       strerror(errno));
	pinned = area_alloc(1, SPARSE);
	pin = pin_page(area_page(&pinned, 3));
	trace_on(JUDGE, true);
	trigger();
	expect_events("verdict=underused, err=0", 3);
	expect_events("verdict=well_used, err=0", 2);
	expect_events("verdict=partially_mapped, err=0", 4);
	expect_events("verdict=mlocked, err=0", 1);
	expect_events("verdict=pinned, err=0", 1);
	expect_events("", 11);
	unpin(pin);
	expect_split(&sparse);
	expect_whole(&dense, "dense");
}

/* The trace names the page by the number that other files of the kernel use. */
static void check_names_page(void)
{
	struct area area;
	char text[64];

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(1, DENSE);
	trace_on(JUDGE, true);
	trigger();
	snprintf(text, sizeof(text), " pfn=0x%lx, nid=",
		 pfn_of(area.base));
	expect_events(text, 1);
}

static const struct test tests[] = {
	TEST("trace.check_verdicts", check_verdicts),
	TEST("trace.check_names_page", check_names_page),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
