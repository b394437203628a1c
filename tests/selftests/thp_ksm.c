// SPDX-License-Identifier: GPL-2.0
/* KSM splits huge pages as well: what is in them is then its own business. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "thp_util.h"

#define THPS		2
#define BATCH		20
#define SLEEP_MS	50
#define POLL_US		100000

static void ksm_start(bool use_zero_pages)
{
	if (!knob_exists("../ksm/run"))
		skip("no KSM (CONFIG_KSM)");
	knob_set_number("../ksm/use_zero_pages", use_zero_pages);
	knob_set_number("../ksm/pages_to_scan", BATCH);
	knob_set_number("../ksm/sleep_millisecs", SLEEP_MS);
	knob_set_number("../ksm/run", 1);
}

/* Memory goes as fast as KSM is allowed to look at pages, and no faster. */
static void zeros_at_its_rate(long use_zero_pages)
{
	struct area area = area_map(THPS);
	long dropped = counter(DROPPED), rss, before;
	double end = now() + 60, last, elapsed;

	set_threshold(MANY);
	area_fill(&area);
	rss = area_rss_pages(&area);
	expect(!madvise(area.base, area_size(&area), MADV_MERGEABLE),
	       "MADV_MERGEABLE: %s", strerror(errno));
	ksm_start(use_zero_pages);
	last = now();
	while (area_huge(&area)) {
		expect(now() < end, "KSM did not come to all huge pages");
		usleep(POLL_US);
		before = rss;
		rss = area_rss_pages(&area);
		elapsed = now() - last;
		last += elapsed;
		/* One batch may have been under way, and one be under way. */
		expect(before - rss <= BATCH * (elapsed * 1000 / SLEEP_MS + 2),
		       "%ld pages gone in %.1f s", before - rss, elapsed);
	}
	expect(counter(DROPPED) == dropped, DROPPED " rose by %ld",
	       counter(DROPPED) - dropped);
	area_verify(&area);
}

/* The truce is with KSM alone: what it leaves whole is judged as ever. */
static void others_still_split(void)
{
	struct area area;

	set_threshold(MANY);
	area = area_alloc(THPS, SPARSE);
	expect(!madvise(area.base, area_size(&area), MADV_MERGEABLE),
	       "MADV_MERGEABLE: %s", strerror(errno));
	trigger();
	expect_split(&area);
}

static const struct test tests[] = {
	TEST_WITH("ksm.zeros_at_its_rate", zeros_at_its_rate, false,
		  .seconds = 90),
	TEST_WITH("ksm.zeropages_at_its_rate", zeros_at_its_rate, true,
		  .seconds = 90),
	TEST("ksm.others_still_split", others_still_split),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
