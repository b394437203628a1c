// SPDX-License-Identifier: GPL-2.0
/*
 * A split allows no access that was not allowed before: the zeropage is mapped
 * with the protection of its range.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "thp_util.h"

#define LIVE_PAGES	100

static sigjmp_buf after_fault;

static void on_fault(int sig)
{
	(void)sig;
	siglongjmp(after_fault, 1);
}

static bool faults(char *page, bool write)
{
	if (sigsetjmp(after_fault, 1))
		return true;
	if (write)
		touch(page);
	else
		(void)__atomic_load_n(page, __ATOMIC_RELAXED);
	return false;
}

static void refused(long prot)
{
	struct sigaction action = { .sa_handler = on_fault };
	struct area area = area_alloc(1, LIVE_PAGES);
	bool write = prot & PROT_READ;
	int i;

	expect(!sigaction(SIGSEGV, &action, NULL), "sigaction: %s",
	       strerror(errno));
	expect(!mprotect(area.base, area_size(&area), prot), "mprotect: %s",
	       strerror(errno));
	/* debugfs leaves out what is PROT_NONE, as that looks like NUMA balancing. */
	set_threshold(USUAL_THRESHOLD);
	trigger();
	area_expect_remapped(&area);
	for (i = 0; i < THP_PAGES; i++)
		expect(faults(area_page(&area, i), write),
		       "page %d: can be %s", i, write ? "written" : "read");
	expect(!mprotect(area.base, area_size(&area), PROT_READ | PROT_WRITE),
	       "mprotect: %s", strerror(errno));
	area_verify(&area);
}

static const struct test tests[] = {
	TEST_WITH("zero_remap.read_refused", refused, PROT_NONE),
	TEST_WITH("zero_remap.write_refused", refused, PROT_READ),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
