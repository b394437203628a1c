// SPDX-License-Identifier: GPL-2.0
/*
 * Only live pages go to swap: an underused huge page is split instead of
 * swapped out whole, and pages given up with MADV_FREE are freed.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/uio.h>
#include <unistd.h>

#include "thp_util.h"

#define WRITTEN		"pswpout"
#define WRITTEN_WHOLE	"thp_swpout"
#define LAZYFREED	"pglazyfreed"

static void expect_rise(const char *name, long before, long want)
{
	expect(counter(name) == before + want, "%s rose by %ld, not %ld", name,
	       counter(name) - before, want);
}

static void pageout(const char *start, size_t size)
{
	expect(!madvise((void *)start, size, MADV_PAGEOUT), "MADV_PAGEOUT: %s",
	       strerror(errno));
}

/* Pages out one huge page, and checks what was written, and whether whole. */
static struct area pageout_one(long live_pages, long want_whole,
			       long want_written)
{
	long written, whole;
	struct area area;

	need_swap();
	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(1, live_pages);
	written = counter(WRITTEN);
	whole = counter(WRITTEN_WHOLE);
	pageout(area.base, area_size(&area));
	expect_rise(WRITTEN_WHOLE, whole, want_whole);
	expect_rise(WRITTEN, written, want_written);
	return area;
}

static void pageout_underused(long live_pages)
{
	struct area area = pageout_one(live_pages, 0, live_pages);

	expect(cgroup_number("memory.swap.current") ==
	       live_pages * (long)PAGE_SIZE, "swap holds other than %ld pages",
	       live_pages);
	area_verify(&area);
}

/* At the threshold it is in use, and swapped out whole as on other kernels. */
static void pageout_used(long live_pages)
{
	struct area area = pageout_one(live_pages, 1, THP_PAGES);

	area_verify(&area);
}

static void pageout_when_off(void)
{
	struct area area;
	long whole;

	need_swap();
	set_threshold(USUAL_THRESHOLD);
	knob_set("shrink_underused", "0");
	area = area_alloc(1, SPARSE);
	whole = counter(WRITTEN_WHOLE);
	pageout(area.base, area_size(&area));
	expect_rise(WRITTEN_WHOLE, whole, 1);
	area_verify(&area);
}

/* Reclaim reaches it on its own, before the shrinker does. */
static void reclaim_underused(void)
{
	long written, whole;
	struct area area;

	need_swap();
	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(8, SPARSE);
	written = counter(WRITTEN);
	whole = counter(WRITTEN_WHOLE);
	cgroup_write("memory.reclaim", "16M");
	expect_rise(WRITTEN_WHOLE, whole, 0);
	written = counter(WRITTEN) - written;
	expect(written <= area_live_pages(&area) + OTHER_PAGES,
	       WRITTEN " rose by %ld, but only %d pages are live", written,
	       area_live_pages(&area));
	expect(!area_huge(&area), "%ld huge pages are left", area_huge(&area));
	area_verify(&area);
}

/* --- checked only where the answer matters --- */

#define SCANNED		"thp_underused_scan_page"
/* As many as fit in swap, less its header. */
#define BALLAST		128
#define GAP		64

/* Leaves no room for a huge page, but some for small ones, all over the place. */
static struct area fill_swap(void)
{
	struct sysinfo memory;
	struct area ballast;
	int i;

	sysinfo(&memory);
	if (memory.totalswap * memory.mem_unit > BALLAST * THP_SIZE)
		skip("there is more swap than that of the test");
	ballast = area_alloc(BALLAST, THP_PAGES);
	pageout(ballast.base, area_size(&ballast));
	sysinfo(&memory);
	expect(memory.freeswap * memory.mem_unit < THP_SIZE,
	       "%ld pages fit in swap still",
	       (long)(memory.freeswap * memory.mem_unit / PAGE_SIZE));
	for (i = 0; i < BALLAST * THP_PAGES; i += GAP)
		area_drop_page(&ballast, i);
	return ballast;
}

/* It is split in any case: nobody needs to know how much of it is used. */
static void cannot_go_whole(void)
{
	struct area ballast, area;
	long written, scanned;

	need_swap();
	set_threshold(USUAL_THRESHOLD);
	ballast = fill_swap();
	area = area_alloc(1, SPARSE);
	written = counter(WRITTEN);
	scanned = counter(SCANNED);
	pageout(area.base, area_size(&area));
	expect_rise(SCANNED, scanned, 0);
	expect_rise(WRITTEN, written, area_live_pages(&area));
	area_verify(&area);
	area_free(&ballast);
}

/* --- interrupts of other processors --- */

#define REMOTE_FLUSHES	"nr_tlb_remote_flush"
#define FLUSHED_THPS	8
#define FLUSHES_ALLOWED	4

static atomic_bool spinning, stop_spinning;

static void *spin(void *unused)
{
	stay_on_cpu(1);
	while (!atomic_load(&stop_spinning))
		atomic_store(&spinning, true);
	return unused;
}

/* What is written out was unmapped when its huge page was split: once is enough. */
static void few_flushes(void)
{
	pthread_t spinner;
	struct area area;
	long flushes;

	need_swap();
	if (counter(REMOTE_FLUSHES) < 0)
		skip("no " REMOTE_FLUSHES " (CONFIG_DEBUG_TLBFLUSH)");
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip("there is one processor");
	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(FLUSHED_THPS, 102);
	stay_on_cpu(0);
	expect(!pthread_create(&spinner, NULL, spin, NULL), "no thread");
	while (!atomic_load(&spinning))
		usleep(1000);
	flushes = counter(REMOTE_FLUSHES);
	pageout(area.base, area_size(&area));
	flushes = counter(REMOTE_FLUSHES) - flushes;
	atomic_store(&stop_spinning, true);
	pthread_join(spinner, NULL);
	note("%ld flushes of the other processor for %d huge pages", flushes,
	     FLUSHED_THPS);
	expect(!area_huge(&area), "%ld huge pages are left", area_huge(&area));
	expect(flushes <= FLUSHED_THPS * FLUSHES_ALLOWED,
	       "%ld flushes of the other processor for %d huge pages", flushes,
	       FLUSHED_THPS);
	area_verify(&area);
}

/* --- MADV_FREE --- */

#define FREED_PAGES	64

static struct area area_lazyfree(void)
{
	struct area area = area_map(1);

	need_swap();
	/* A page that one CPU has not yet put on a list is not seen by others. */
	stay_on_cpu(0);
	area_choose(&area, 0, THP_PAGES, WHOLE);
	area_fill_small(&area);
	expect(!madvise(area.base, FREED_PAGES * PAGE_SIZE, MADV_FREE),
	       "MADV_FREE: %s", strerror(errno));
	return area;
}

/* A page that is pinned while reclaim wants it is freed the next time. */
static void lazyfree_after_pin(void)
{
	struct area area = area_lazyfree();
	long freed, written;
	struct pin pin;

	pin = pin_page(area_page(&area, 3));
	pageout(area_page(&area, 3), PAGE_SIZE);
	expect(page_has(area_page(&area, 3), PM_PRESENT),
	       "freed although it is pinned");
	unpin(pin);
	freed = counter(LAZYFREED);
	written = counter(WRITTEN);
	pageout(area_page(&area, 3), PAGE_SIZE);
	expect_rise(WRITTEN, written, 0);
	expect_rise(LAZYFREED, freed, 1);
	expect(!page_has(area_page(&area, 3), PM_PRESENT), "not freed");
}

/* A page that is written to again must be kept, pinned or not. */
static void lazyfree_written_again(long pinned)
{
	struct area area = area_lazyfree();
	struct pin pin;

	area_write(&area, 3, WHOLE);
	if (pinned) {
		pin = pin_page(area_page(&area, 3));
		pageout(area_page(&area, 3), PAGE_SIZE);
		unpin(pin);
	}
	pageout(area_page(&area, 3), PAGE_SIZE);
	memset(area.live, GONE, FREED_PAGES);
	area.live[3] = WHOLE;
	memset(area_page(&area, 0), 0, 3 * PAGE_SIZE);
	memset(area_page(&area, 4), 0, (FREED_PAGES - 4) * PAGE_SIZE);
	area_verify(&area);
}

struct sharer {
	const struct area *area;
	int done[2], go_on[2];
};

static struct sharer sharer_of(const struct area *area)
{
	struct sharer sharer = { .area = area };

	expect(!pipe(sharer.done) && !pipe(sharer.go_on), "pipe: %s",
	       strerror(errno));
	return sharer;
}

static void give_up(const struct area *area)
{
	expect(!madvise(area->base, area_size(area), MADV_FREE),
	       "MADV_FREE: %s", strerror(errno));
}

/* A page that was used survives the first attempt. */
static void reclaim_again_and_again(void)
{
	int i;

	for (i = 0; i < 10; i++)
		cgroup_write("memory.reclaim", "4M");
}

static void child_waits(void *arg)
{
	struct sharer *sharer = arg;

	tell(sharer->done[1]);
	hear(sharer->go_on[0]);
}

static void child_gives_up(void *arg)
{
	struct sharer *sharer = arg;

	give_up(sharer->area);
	child_waits(sharer);
}

/* A page that a child gives up is kept for its parent. */
static void expect_kept_for_parent(const struct area *area)
{
	struct sharer sharer = sharer_of(area);
	pid_t child;

	child = helper_start(child_gives_up, &sharer);
	hear(sharer.done[0]);
	reclaim_again_and_again();
	area_verify(area);
	tell(sharer.go_on[1]);
	helper_join(child);
}

/* Memory that was read back from swap is clean. */
static void lazyfree_of_shared(void)
{
	struct area area = area_map(1);

	need_swap();
	area_choose(&area, 0, THP_PAGES, WHOLE);
	area_fill_small(&area);
	pageout(area.base, area_size(&area));
	area_verify(&area);
	expect_kept_for_parent(&area);
}

/* So is memory that was copied because it was read while it was shared. */
static void lazyfree_of_copied(void)
{
	struct area area = area_map(1);
	struct sharer sharer = sharer_of(&area);
	static char copy[THP_SIZE];
	struct iovec from = { area.base, area_size(&area) };
	struct iovec to = { copy, sizeof(copy) };
	pid_t child;

	area_choose(&area, 0, THP_PAGES, WHOLE);
	area_fill_small(&area);
	child = helper_start(child_waits, &sharer);
	hear(sharer.done[0]);
	expect(process_vm_readv(getpid(), &to, 1, &from, 1, 0) ==
	       (ssize_t)THP_SIZE, "process_vm_readv: %s", strerror(errno));
	tell(sharer.go_on[1]);
	helper_join(child);
	expect_kept_for_parent(&area);
}

/* Memory given up while a child shared it is freed once the child has ended. */
static void lazyfree_of_forked(void)
{
	struct area area = area_map(1);
	struct sharer sharer = sharer_of(&area);
	int left = 0, page;
	pid_t child;

	stay_on_cpu(0);
	area_choose(&area, 0, THP_PAGES, WHOLE);
	area_fill_small(&area);
	child = helper_start(child_waits, &sharer);
	hear(sharer.done[0]);
	give_up(&area);
	tell(sharer.go_on[1]);
	helper_join(child);
	reclaim_again_and_again();
	for (page = 0; page < THP_PAGES; page++)
		left += page_has(area_page(&area, page), PM_PRESENT);
	expect(!left, "%d of %d pages are not freed", left, THP_PAGES);
}

/* It has a page table instead of a huge PMD then, and reclaim stops at it. */
static void child_locks_page(void *arg)
{
	struct sharer *sharer = arg;

	expect(!mlock2(sharer->area->base, PAGE_SIZE, MLOCK_ONFAULT),
	       "mlock2: %s", strerror(errno));
	child_waits(sharer);
}

static void child_gives_up_later(void *arg)
{
	struct sharer *sharer = arg;

	tell(sharer->done[1]);
	hear(sharer->go_on[0]);
	expect(area_huge(sharer->area) == 1, "reclaim took it from all");
	child_gives_up(sharer);
}

/*
 * Reclaim has put a huge page into the swap cache, and could not take it from
 * all who have it, so that nothing is written there. Who gives it up meanwhile
 * must not make it clean: the others would read what was in swap before.
 */
static void lazyfree_in_swap_cache(void)
{
	struct area area = area_alloc(1, THP_PAGES);
	struct sharer locker = sharer_of(&area), giver = sharer_of(&area);
	pid_t first, second;

	need_swap();
	set_threshold(511);
	first = helper_start(child_locks_page, &locker);
	hear(locker.done[0]);
	second = helper_start(child_gives_up_later, &giver);
	hear(giver.done[0]);
	reclaim_again_and_again();
	expect(smaps_kb("Swap", area.base, THP_SIZE) == THP_SIZE / KB,
	       "%ld kB are in swap", smaps_kb("Swap", area.base, THP_SIZE));
	tell(locker.go_on[1]);
	helper_join(first);

	tell(giver.go_on[1]);
	hear(giver.done[0]);
	reclaim_again_and_again();
	area_verify(&area);
	tell(giver.go_on[1]);
	helper_join(second);
}

static const struct test tests[] = {
	TEST_WITH("swap.underused_1_live", pageout_underused, 1, .swap = true),
	TEST_WITH("swap.underused_64_live", pageout_underused, 64,
		  .swap = true),
	TEST_WITH("swap.underused_102_live", pageout_underused, 102,
		  .swap = true),
	TEST_WITH("swap.used_103_live", pageout_used, 103, .swap = true),
	TEST_WITH("swap.used_512_live", pageout_used, 512, .swap = true),
	TEST("swap.whole_when_off", pageout_when_off, .swap = true),
	TEST("swap.reclaim_underused", reclaim_underused, .swap = true),
	TEST("swap.cannot_go_whole", cannot_go_whole, .swap = true,
	     .seconds = 60),
	TEST("swap.few_flushes", few_flushes, .swap = true),
	TEST("swap.lazyfree_after_pin", lazyfree_after_pin, .swap = true),
	TEST_WITH("swap.lazyfree_written_again", lazyfree_written_again, false,
		  .swap = true),
	TEST_WITH("swap.lazyfree_written_again_pinned", lazyfree_written_again,
		  true, .swap = true),
	TEST("swap.lazyfree_of_shared", lazyfree_of_shared, .swap = true),
	TEST("swap.lazyfree_in_swap_cache", lazyfree_in_swap_cache, .swap = true),
	TEST("swap.lazyfree_of_copied", lazyfree_of_copied),
	TEST("swap.lazyfree_of_forked", lazyfree_of_forked),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
