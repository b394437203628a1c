// SPDX-License-Identifier: GPL-2.0
/*
 * Splitting an anonymous huge page gives its zero-filled subpages back: they
 * become the shared zeropage, and nothing else about them changes.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "thp_util.h"

#define LIVE_PAGES	100

static void split(const struct area *area)
{
	split_range(getpid(), area->base, area_size(area));
}

/* `how` says where the live byte of each live page is. */
static void content_kept(long how)
{
	struct area area = area_map(2);

	area_choose(&area, 0, 1, how);
	area_choose(&area, 1, LIVE_PAGES, how);
	area_fill(&area);
	split(&area);
	area_verify(&area);
	area_expect_remapped(&area);
}

static void zeropage_mapped(long live_pages)
{
	struct area area = area_alloc(2, live_pages);

	split(&area);
	area_expect_remapped(&area);
	area_verify(&area);
}

static void rss_falls(void)
{
	struct area area = area_alloc(2, LIVE_PAGES);
	long before = area_rss_pages(&area), freed;

	split(&area);
	freed = before - area_rss_pages(&area);
	expect(freed == area_zero_pages(&area),
	       "Rss fell by %ld pages, not %d", freed, area_zero_pages(&area));
	area_verify(&area);
}

static void memory_given_back(void)
{
	struct area area = area_alloc(8, LIVE_PAGES);
	long before = cgroup_number("memory.current"), freed;

	split(&area);
	freed = before - cgroup_number("memory.current");
	/* Each CPU keeps some of the charge for later: allow for that. */
	expect(freed >= area_zero_pages(&area) * (long)PAGE_SIZE * 9 / 10,
	       "the cgroup's memory fell by %ld bytes only", freed);
	area_verify(&area);
}

static void counter_exact(void)
{
	struct area area = area_alloc(3, LIVE_PAGES);
	long before = counter(DROPPED), counted;

	expect(before >= 0, "no " DROPPED " in /proc/vmstat");
	split(&area);
	counted = counter(DROPPED) - before;
	expect(counted == area_zero_pages(&area),
	       DROPPED " rose by %ld, not by %d", counted,
	       area_zero_pages(&area));
}

static void switch_off_keeps(void)
{
	struct area area = area_alloc(2, LIVE_PAGES);
	long before = area_rss_pages(&area), dropped = counter(DROPPED);

	knob_set("shrink_underused", "0");
	split(&area);
	expect(!area_huge(&area), "the huge pages are not split");
	expect(area_rss_pages(&area) == before, "Rss changed");
	expect(counter(DROPPED) == dropped, DROPPED " changed");
	area_expect_kept(&area);
	area_verify(&area);
}

static void mlocked_keeps(void)
{
	struct area area = area_alloc(1, LIVE_PAGES);
	struct area other = area_alloc(1, LIVE_PAGES);
	struct rusage before, after;
	int i;

	expect(!mlock(area.base, area_size(&area)), "mlock: %s",
	       strerror(errno));
	split(&area);
	split(&other);
	expect(!area_huge(&area), "the huge page is not split");
	area_expect_kept(&area);
	area_verify(&area);

	getrusage(RUSAGE_SELF, &before);
	for (i = 0; i < THP_PAGES; i++)
		touch(area_page(&area, i));
	getrusage(RUSAGE_SELF, &after);
	expect(before.ru_minflt == after.ru_minflt,
	       "%ld faults on locked memory",
	       after.ru_minflt - before.ru_minflt);
	area_expect_remapped(&other);
}

static void write_after_split(void)
{
	struct area area = area_alloc(2, LIVE_PAGES);
	int i;

	split(&area);
	area_expect_remapped(&area);
	for (i = 0; i < area.thps * THP_PAGES; i += 3)
		if (area.live[i] == ZERO)
			area_write(&area, i, FIRST_BYTE + i % WHOLE);
	area_verify(&area);
	for (i = 0; i < area.thps * THP_PAGES; i++)
		expect(is_zeropage(area_page(&area, i)) ==
		       (area.live[i] == ZERO),
		       "page %d: wrong page after a write", i);
}

static void read_only_range(void)
{
	struct area area = area_alloc(2, LIVE_PAGES);

	expect(!mprotect(area.base, area_size(&area), PROT_READ),
	       "mprotect: %s", strerror(errno));
	split(&area);
	area_expect_remapped(&area);
	area_verify(&area);
	expect(!mprotect(area.base, area_size(&area), PROT_READ | PROT_WRITE),
	       "mprotect: %s", strerror(errno));
	touch(area_page(&area, 1));
	expect(!is_zeropage(area_page(&area, 1)),
	       "a write went to the zeropage");
	area_verify(&area);
}

/* The mapping no longer lies where the huge page was faulted in. */
static void moved_range(void)
{
	struct area area = area_alloc(2, LIVE_PAGES);
	void *target = area_map(2).base;

	expect(mremap(area.base, area_size(&area), area_size(&area),
		      MREMAP_MAYMOVE | MREMAP_FIXED, target) == target,
	       "mremap: %s", strerror(errno));
	area.base = target;
	expect(area_huge(&area) == 2, "mremap left no huge pages");
	split(&area);
	area_expect_remapped(&area);
	area_verify(&area);
}

/* --- shared by fork --- */

struct shared {
	struct area area;
	int to_child[2], to_parent[2];
	bool locked;
};

static void share_child(void *arg)
{
	struct shared *shared = arg;
	struct area *area = &shared->area;

	close(shared->to_child[1]);
	if (shared->locked)
		/* Plain mlock() would first give this process its own copy. */
		expect(!mlock2(area->base, area_size(area), MLOCK_ONFAULT),
		       "mlock2: %s", strerror(errno));
	tell(shared->to_parent[1]);
	hear(shared->to_child[0]);
	if (shared->locked)
		area_expect_kept(area);
	else
		area_expect_remapped(area);
	area_verify(area);
	tell(shared->to_parent[1]);
	/* The parent writes now, which must not show here. */
	hear(shared->to_child[0]);
	area_verify(area);
}

static void fork_shared(long locked)
{
	struct shared shared = {
		.area = area_alloc(2, LIVE_PAGES), .locked = locked,
	};
	struct area *area = &shared.area, other = area_alloc(1, LIVE_PAGES);
	pid_t child;
	int i;

	expect(!pipe(shared.to_child) && !pipe(shared.to_parent), "pipe: %s",
	       strerror(errno));
	child = helper_start(share_child, &shared);
	/* A child that fails is noticed as a closed pipe. */
	close(shared.to_parent[1]);
	hear(shared.to_parent[0]);
	split(area);
	split(&other);
	area_expect_remapped(&other);
	tell(shared.to_child[1]);
	hear(shared.to_parent[0]);
	if (!locked)
		area_expect_remapped(area);
	area_verify(area);
	for (i = 0; i < area->thps * THP_PAGES; i++)
		area_page(area, i)[7] = 1;
	tell(shared.to_child[1]);
	helper_join(child);
	for (i = 0; i < area->thps * THP_PAGES; i++)
		expect(!is_zeropage(area_page(area, i)),
		       "page %d: written, but still the zeropage", i);
}

/* --- pinned --- */

static void pinned_whole(void)
{
	struct area area = area_alloc(1, LIVE_PAGES);
	char *page = area_page(&area, 7), content[PAGE_SIZE];
	struct pin pin = pin_page(page);

	split(&area);
	expect(area_huge(&area) == 1, "a pinned huge page was split");
	area_verify(&area);

	expect(read(pin.fds[0], content, PAGE_SIZE) == (ssize_t)PAGE_SIZE,
	       "pipe: %s", strerror(errno));
	expect(!memcmp(content, page, PAGE_SIZE),
	       "what was read through the pin is wrong");
	unpin(pin);
	split(&area);
	area_expect_remapped(&area);
	area_verify(&area);
}

static const struct test tests[] = {
	TEST_WITH("zero_remap.first_byte_kept", content_kept, FIRST_BYTE),
	TEST_WITH("zero_remap.middle_byte_kept", content_kept, MIDDLE_BYTE),
	TEST_WITH("zero_remap.last_byte_kept", content_kept, LAST_BYTE),
	TEST_WITH("zero_remap.whole_page_kept", content_kept, WHOLE),
	TEST_WITH("zero_remap.zeropage_mapped", zeropage_mapped, LIVE_PAGES),
	TEST_WITH("zero_remap.all_zero", zeropage_mapped, 0),
	TEST_WITH("zero_remap.no_zero", zeropage_mapped, THP_PAGES),
	TEST("zero_remap.rss_falls", rss_falls),
	TEST("zero_remap.memory_given_back", memory_given_back),
	TEST("zero_remap.counter_exact", counter_exact),
	TEST("zero_remap.switch_off_keeps", switch_off_keeps),
	TEST("zero_remap.mlocked_keeps", mlocked_keeps),
	TEST("zero_remap.write_after_split", write_after_split),
	TEST("zero_remap.read_only_range", read_only_range),
	TEST("zero_remap.moved_range", moved_range),
	TEST_WITH("zero_remap.fork_shared", fork_shared, false),
	TEST_WITH("zero_remap.fork_shared_mlocked", fork_shared, true),
	TEST("zero_remap.pinned_whole", pinned_whole),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
