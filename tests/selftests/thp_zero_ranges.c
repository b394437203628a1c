// SPDX-License-Identifier: GPL-2.0
/*
 * A huge page with different mappings, whose ranges start and end anywhere:
 * after a split, each part is in the state that its range requires.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "thp_util.h"

#define LIVE_PAGES	100

/* The pages that were one huge page, as one process sees them. */
struct pages {
	char *at[THP_PAGES];		/* NULL: not mapped any more */
	bool zero[THP_PAGES];
	bool locked[THP_PAGES];
	char *content;
};

static void split(const struct area *area)
{
	split_range(getpid(), area->base, area_size(area));
}

static struct pages pages_of(const struct area *area)
{
	struct pages pages = { .content = malloc(THP_SIZE) };
	int i;

	expect(pages.content, "no memory");
	memcpy(pages.content, area->base, THP_SIZE);
	for (i = 0; i < THP_PAGES; i++) {
		pages.at[i] = area_page(area, i);
		pages.zero[i] = area->live[i] == ZERO;
	}
	return pages;
}

static void expect_pages(const struct pages *pages)
{
	int i;

	for (i = 0; i < THP_PAGES; i++) {
		const char *page = pages->at[i];

		if (!page)
			continue;
		expect(pfn_of(page), "page %d: not mapped", i);
		expect(!is_compound(page), "page %d: not split", i);
		expect(is_zeropage(page) ==
		       (pages->zero[i] && !pages->locked[i]),
		       "page %d: %s the shared zeropage", i,
		       is_zeropage(page) ? "on" : "not on");
		expect(!memcmp(page, pages->content + i * PAGE_SIZE,
			       PAGE_SIZE), "page %d: not what it was", i);
	}
}

/* --- parts of it --- */

static void protect(struct pages *pages, int first, int count)
{
	expect(!mprotect(pages->at[first], count * PAGE_SIZE, PROT_READ),
	       "mprotect: %s", strerror(errno));
}

static void lock(struct pages *pages, int first, int count)
{
	int i;

	/* Plain mlock() gives a process its own copy of what it shares. */
	expect(!mlock2(pages->at[first], count * PAGE_SIZE, MLOCK_ONFAULT),
	       "mlock2: %s", strerror(errno));
	for (i = first; i < first + count; i++)
		pages->locked[i] = true;
}

static void unmap(struct pages *pages, int first, int count)
{
	int i;

	expect(!munmap(pages->at[first], count * PAGE_SIZE), "munmap: %s",
	       strerror(errno));
	for (i = first; i < first + count; i++)
		pages->at[i] = NULL;
}

static void dirty(struct pages *pages, int first, int count)
{
	int i;

	for (i = first; i < first + count; i++) {
		pages->at[i][8] = (char)(i | 1);
		pages->content[i * PAGE_SIZE + 8] = (char)(i | 1);
		pages->zero[i] = false;
	}
}

static void move(struct pages *pages, int first, int count, char *target)
{
	size_t size = count * PAGE_SIZE;
	int i;

	expect(mremap(pages->at[first], size, size,
		      MREMAP_MAYMOVE | MREMAP_FIXED, target) == target,
	       "mremap: %s", strerror(errno));
	for (i = 0; i < count; i++)
		pages->at[first + i] = target + i * PAGE_SIZE;
}

/* That many pages before the end of a page table, with room behind it too. */
static char *before_boundary(int count)
{
	struct area room = area_map(3);

	return area_thp(&room, 1) - count * PAGE_SIZE;
}

static void take_apart(struct pages *pages)
{
	protect(pages, 10, 65);
	lock(pages, 100, 65);
	unmap(pages, 200, 30);
	dirty(pages, 260, 10);
	move(pages, 300, 71, before_boundary(30));
	protect(pages, 400, 1);
	lock(pages, 500, 12);
}

/* --- one process --- */

static void many_ranges(void)
{
	struct area area = area_alloc(1, LIVE_PAGES);
	struct pages pages = pages_of(&area);

	take_apart(&pages);
	expect(is_compound(area.base), "split already");
	split(&area);
	expect_pages(&pages);
}

/* No part of the range is aligned like a huge page. */
static void straddling_range(long before)
{
	struct area area = area_alloc(1, LIVE_PAGES);
	struct pages pages = pages_of(&area);

	move(&pages, 0, THP_PAGES, before_boundary(before));
	area.base = pages.at[0];
	expect(is_compound(area.base), "split already");
	split(&area);
	expect_pages(&pages);
}

/* --- two processes --- */

struct shared {
	struct area area;
	struct pages pages;
	void (*differ)(struct pages *pages);	/* what the child does */
	int to_child[2], to_parent[2];
};

static void other_process(void *arg)
{
	struct shared *shared = arg;
	struct pages *pages = &shared->pages;

	close(shared->to_child[1]);
	shared->differ(pages);
	tell(shared->to_parent[1]);
	hear(shared->to_child[0]);
	expect_pages(pages);
}

static pid_t other_start(struct shared *shared)
{
	pid_t child;

	expect(!pipe(shared->to_child) && !pipe(shared->to_parent),
	       "pipe: %s", strerror(errno));
	child = helper_start(other_process, shared);
	/* A child that fails is noticed as a closed pipe. */
	close(shared->to_parent[1]);
	hear(shared->to_parent[0]);
	expect(is_compound(shared->area.base), "split already");
	return child;
}

/* Splits; checks the pages of both, and how many pages neither has kept. */
static void expect_both(struct shared *shared, pid_t child, long want)
{
	long before = counter(DROPPED), dropped;

	split(&shared->area);
	dropped = counter(DROPPED) - before;
	expect_pages(&shared->pages);
	expect(dropped == want, DROPPED " rose by %ld, not by %ld", dropped,
	       want);
	tell(shared->to_child[1]);
	helper_join(child);
}

/* A page that one process keeps is still given back in the other. */
static void fork_shared_unlike(void)
{
	struct shared shared = {
		.area = area_alloc(1, LIVE_PAGES), .differ = take_apart,
	};
	long want = 0;
	pid_t child;
	int i;

	shared.pages = pages_of(&shared.area);
	child = other_start(&shared);
	for (i = 0; i < THP_PAGES; i++)
		want += shared.pages.zero[i] &&
			!(i >= 100 && i < 165) && i < 500;
	expect_both(&shared, child, want);
}

static void unlocked(struct pages *pages)
{
	memset(pages->locked, 0, sizeof(pages->locked));
}

/*
 * The same, but the process that keeps them is the first to be remapped. That
 * is the parent: its ranges are older than the child's and start where they do.
 * A child does not inherit the lock.
 */
static void fork_shared_kept_first(void)
{
	struct shared shared = {
		.area = area_alloc(1, LIVE_PAGES), .differ = unlocked,
	};
	struct pages *pages = &shared.pages;
	const int last = THP_PAGES - 1;

	*pages = pages_of(&shared.area);
	/* Mapped by PTEs, so that the lock is the range's and not the page's. */
	protect(pages, last, 1);
	lock(pages, 0, last);
	expect_both(&shared, other_start(&shared), pages->zero[last]);
}

static const struct test tests[] = {
	TEST("zero_remap.many_ranges", many_ranges),
	TEST_WITH("zero_remap.straddling_range", straddling_range, 37),
	TEST_WITH("zero_remap.straddling_at_last_page", straddling_range, 511),
	TEST("zero_remap.fork_shared_unlike", fork_shared_unlike),
	TEST("zero_remap.fork_shared_kept_first", fork_shared_kept_first),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
