// SPDX-License-Identifier: GPL-2.0
/*
 * A huge page judged as used is judged again when that can have changed: at
 * once after a limit has, under pressure when some time has passed, and never
 * on a quiet system.
 */
#include <string.h>
#include <unistd.h>

#include "thp_util.h"

#define THPS		4
/* A second look is due ten seconds after the first. */
#define NOT_DUE		8
#define DUE		11

/* Huge pages that have just been judged as used. */
static struct area area_judged(int live_pages)
{
	struct area area = area_alloc(THPS, live_pages);
	long scanned = counter(SCANNED);

	expect_queued(THPS);
	trigger();
	expect(counter(SCANNED) == scanned + THPS, "judged %ld huge pages, not %d",
	       counter(SCANNED) - scanned, THPS);
	expect_whole(&area, "in use");
	expect_queued(0);
	return area;
}

static void lowered_at_once(void)
{
	struct area area;

	set_threshold(511);
	area = area_judged(SPARSE);
	set_threshold(MANY);
	expect_queued(THPS);
	trigger();
	expect_split(&area);
}

static void lowered_for_khugepaged(void)
{
	struct area area = area_judged(SPARSE);

	knob_set_number("khugepaged/max_ptes_none", MANY);
	expect_queued(THPS);
	trigger();
	expect_split(&area);
}

static void switched_on_again(void)
{
	struct area area;
	long scanned;

	set_threshold(MANY);
	area = area_judged(DENSE);
	knob_set("shrink_underused", "0");
	knob_set("shrink_underused", "1");
	scanned = counter(SCANNED);
	trigger();
	expect(counter(SCANNED) == scanned + THPS,
	       "judged %ld huge pages, not %d", counter(SCANNED) - scanned,
	       THPS);
	expect_whole(&area, "in use");
}

/* What was live is all zero now, but for one page of each huge page. */
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

	set_threshold(MANY);
	area = area_judged(DENSE);
	empty(&area);
	sleep(DUE);
	trigger();
	expect_split(&area);
}

/* However often memory runs short: reading it costs more than it can bring. */
static void not_before_it_is_due(void)
{
	double began = now();
	struct area area;
	long scanned;

	set_threshold(MANY);
	area = area_judged(DENSE);
	scanned = counter(SCANNED);
	while (now() - began < NOT_DUE) {
		trigger();
		usleep(500000);
	}
	expect(counter(SCANNED) == scanned, "judged again after %d seconds",
	       NOT_DUE);
	expect_whole(&area, "in use");
	sleep(DUE);
	trigger();
	expect(counter(SCANNED) == scanned + THPS,
	       "%ld huge pages had their second look, not %d",
	       counter(SCANNED) - scanned, THPS);
	trigger();
	expect(counter(SCANNED) == scanned + THPS, "and a third one at once");
}

static void quiet_without_pressure(void)
{
	struct area area;
	long scanned;

	set_threshold(MANY);
	area = area_judged(DENSE);
	empty(&area);
	scanned = counter(SCANNED);
	sleep(DUE);
	expect(counter(SCANNED) == scanned, "judged although memory is plenty");
	expect_whole(&area, "no pressure");
	expect_queued(THPS);
}

static const struct test tests[] = {
	TEST("second_look.lowered_at_once", lowered_at_once),
	TEST("second_look.lowered_for_khugepaged", lowered_for_khugepaged),
	TEST("second_look.switched_on_again", switched_on_again),
	TEST("second_look.zeroed_later", zeroed_later, .seconds = 60),
	TEST("second_look.not_before_it_is_due", not_before_it_is_due,
	     .seconds = 90),
	TEST("second_look.quiet_without_pressure", quiet_without_pressure,
	     .seconds = 60),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
