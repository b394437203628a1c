// SPDX-License-Identifier: GPL-2.0
/*
 * A read-only pin for long, as devices take it, stays coherent with what the
 * CPU writes, also where the pinned memory was the shared zeropage.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* The interface of CONFIG_GUP_TEST. */
#include <linux/types.h>
#include "../../../../mm/gup_test.h"
#include "thp_util.h"

#define LIVE_PAGES	100
/* A flag inside the kernel, which the test interface passes on. */
#define FOLL_LONGTERM	0x10000

enum mode { LONG, LONG_FAST, SHORT };

/*
 * Pins all pages for reading, and unpins them again: this interface cannot keep
 * a pin and read through it. What counts is which page it is that was pinned.
 */
static void pin_all(const struct area *area, enum mode mode)
{
	/* Of the commands that pin, this one accepts zeropages. */
	unsigned long command = DUMP_USER_PAGES_TEST;
	struct gup_test pin = {
		.addr = (uintptr_t)area->base,
		.size = area_size(area),
		.nr_pages_per_call = THP_PAGES,
		.gup_flags = mode == SHORT ? 0 : FOLL_LONGTERM,
		.test_flags = GUP_TEST_FLAG_DUMP_PAGES_USE_PIN,
	};
	int fd = open("/sys/kernel/debug/gup_test", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		skip("no gup_test in debugfs (CONFIG_GUP_TEST): %s",
		     strerror(errno));
	if (mode == LONG_FAST)
		command = PIN_FAST_BENCHMARK;
	expect(!ioctl(fd, command, &pin), "gup_test: %s", strerror(errno));
	close(fd);
	expect(pin.size == area_size(area), "only %llu bytes were pinned",
	       pin.size);
}

/* A device that has the page sees what is written to the address. */
static void expect_coherent(const struct area *area)
{
	int i;

	for (i = 0; i < area->thps * THP_PAGES; i++) {
		char *page = area_page(area, i);
		unsigned long pinned = pfn_of(page);

		expect(!is_zeropage(page),
		       "page %d: the shared zeropage was pinned for long", i);
		page[9] = 1;
		expect(pfn_of(page) == pinned,
		       "page %d: the write went to another page", i);
	}
}

static void pin_after_split(long mode)
{
	struct area area = area_alloc(1, LIVE_PAGES);

	split_range(getpid(), area.base, area_size(&area));
	area_expect_remapped(&area);
	pin_all(&area, mode);
	area_verify(&area);
	if (mode == SHORT)
		area_expect_remapped(&area);
	else
		expect_coherent(&area);
}

/* The huge zeropage is mapped by a PMD, which pin_user_pages_fast() can follow. */
static void pin_huge_zeropage(long mode)
{
	struct area area = area_map(1);

	area_verify(&area);
	expect(is_zeropage(area.base) && !area_rss_pages(&area),
	       "reading did not map the huge zeropage");
	pin_all(&area, mode);
	area_verify(&area);
	expect_coherent(&area);
}

static const struct test tests[] = {
	TEST_WITH("zero_remap.longterm_pin", pin_after_split, LONG),
	TEST_WITH("zero_remap.short_pin", pin_after_split, SHORT),
	TEST_WITH("zero_remap.longterm_pin_huge", pin_huge_zeropage, LONG),
	TEST_WITH("zero_remap.longterm_pin_huge_fast", pin_huge_zeropage,
		  LONG_FAST),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
