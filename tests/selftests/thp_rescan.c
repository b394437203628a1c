// SPDX-License-Identifier: GPL-2.0
/*
 * A huge page found in use is rescanned when that may have changed: at once
 * after a change of the threshold, after some time under memory pressure, and
 * never on a quiet system.
 */
#include <string.h>
#include <unistd.h>

#include "thp_util.h"

#define THPS		4
/* A rescan is due ten seconds after the first scan. */
#define NOT_DUE		8
#define DUE		11

/* Huge pages that a scan has just found in use. */
static struct area area_in_use(int live_pages)
{
	struct area area = area_alloc(THPS, live_pages);
	long scanned = counter(SCANNED);

	expect_queued(THPS);
	trigger();
	expect(counter(SCANNED) == scanned + THPS, "scanned %ld huge pages, not %d",
	       counter(SCANNED) - scanned, THPS);
	expect_whole(&area, "in use");
	expect_queued(0);
	return area;
}

static void lowered_at_once(void)
{
	struct area area;

	set_threshold(511);
	area = area_in_use(SPARSE);
	set_threshold(USUAL_THRESHOLD);
	expect_queued(THPS);
	trigger();
	expect_split(&area);
}

static void lowered_for_khugepaged(void)
{
	struct area area = area_in_use(SPARSE);

	knob_set_number("khugepaged/max_ptes_none", USUAL_THRESHOLD);
	expect_queued(THPS);
	trigger();
	expect_split(&area);
}

static void switched_on_again(void)
{
	struct area area;
	long scanned;

	set_threshold(USUAL_THRESHOLD);
	area = area_in_use(DENSE);
	knob_set("shrink_underused", "0");
	knob_set("shrink_underused", "1");
	scanned = counter(SCANNED);
	trigger();
	expect(counter(SCANNED) == scanned + THPS,
	       "scanned %ld huge pages, not %d", counter(SCANNED) - scanned,
	       THPS);
	expect_whole(&area, "in use");
}

/* Zeroes all live pages but the first one of each huge page. */
static void empty(struct area *area)
{
	int page;

	for (page = 0; page < area->thps * THP_PAGES; page++) {
		if (page % THP_PAGES == 0 || area->live[page] == ZERO)
			continue;
		memset(area_page(area, page), 0, PAGE_SIZE);
		area->live[page] = ZERO;
	}
}

static void zeroed_later(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_in_use(DENSE);
	empty(&area);
	sleep(DUE);
	trigger();
	expect_split(&area);
}

/* Not even under constant pressure: a rescan would cost more than it brings. */
static void not_before_it_is_due(void)
{
	double began = now();
	struct area area;
	long scanned;

	set_threshold(USUAL_THRESHOLD);
	area = area_in_use(DENSE);
	scanned = counter(SCANNED);
	while (now() - began < NOT_DUE) {
		trigger();
		usleep(500000);
	}
	expect(counter(SCANNED) == scanned, "rescanned within %d seconds",
	       NOT_DUE);
	expect_whole(&area, "in use");
	sleep(DUE);
	trigger();
	expect(counter(SCANNED) == scanned + THPS,
	       "%ld huge pages were rescanned, not %d",
	       counter(SCANNED) - scanned, THPS);
	trigger();
	expect(counter(SCANNED) == scanned + THPS, "rescanned twice");
}

static void quiet_without_pressure(void)
{
	struct area area;
	long scanned;

	set_threshold(USUAL_THRESHOLD);
	area = area_in_use(DENSE);
	empty(&area);
	scanned = counter(SCANNED);
	sleep(DUE);
	expect(counter(SCANNED) == scanned, "rescanned without memory pressure");
	expect_whole(&area, "no pressure");
	expect_queued(THPS);
}

static const struct test tests[] = {
	TEST("rescan.lowered_at_once", lowered_at_once),
	TEST("rescan.lowered_for_khugepaged", lowered_for_khugepaged),
	TEST("rescan.switched_on_again", switched_on_again),
	TEST("rescan.zeroed_later", zeroed_later, .seconds = 60),
	TEST("rescan.not_before_it_is_due", not_before_it_is_due,
	     .seconds = 90),
	TEST("rescan.quiet_without_pressure", quiet_without_pressure,
	     .seconds = 60),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
