// SPDX-License-Identifier: GPL-2.0
/*
 * A huge page that was swapped out in one piece comes back in one piece, where
 * swapin_enabled allows it, and with what was in it.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "thp_util.h"

#define POLICY		"swapin_enabled"
#define WHOLE_IN	"thp_swpin"
#define FALLBACK	"thp_swpin_fallback"
#define PAGES_IN	"pswpin"

static void need_policy(const char *policy)
{
	need_swap();
	if (!knob_exists(POLICY))
		fail("this kernel has no " POLICY);
	knob_set(POLICY, policy);
	set_threshold(511);
}

/* In swap, and wanted back by the policy. */
static struct area swapped_out(int thps, const char *policy)
{
	struct area area;

	need_policy(policy);
	area = area_alloc(thps, THP_PAGES);
	area_swap_out(&area);
	return area;
}

static void read_page(const struct area *area, int page)
{
	(void)*(volatile char *)area_page(area, page);
}

/* Reads one page of each huge page, not always the same one. */
static void read_one_of_each(const struct area *area)
{
	int thp;

	for (thp = 0; thp < area->thps; thp++)
		read_page(area, thp * THP_PAGES + (thp * 37 + 5) % THP_PAGES);
}

static void expect_small(const struct area *area, const char *why)
{
	expect(!area_huge(area), "%s: %ld huge pages came back", why,
	       area_huge(area));
	area_verify(area);
	expect(!area_huge(area), "%s: %ld huge pages after all was read", why,
	       area_huge(area));
}

/* --- what comes back --- */

static void whole(void)
{
	struct area area = swapped_out(4, "always");

	read_one_of_each(&area);
	expect_whole(&area, "after one page of each was read");
	expect(!smaps_kb("Swap", area.base, area_size(&area)),
	       "%ld kB are still in swap",
	       smaps_kb("Swap", area.base, area_size(&area)));
	expect(!cgroup_number("memory.swap.current"),
	       "swap still holds %ld bytes", cgroup_number("memory.swap.current"));
}

static void counts(void)
{
	struct area area = swapped_out(3, "always");
	long in = counter(WHOLE_IN), pages = counter(PAGES_IN);
	long fallbacks = counter(FALLBACK);
	double end = now() + 5;

	read_one_of_each(&area);
	expect(counter(WHOLE_IN) == in + 3, WHOLE_IN " rose by %ld, not 3",
	       counter(WHOLE_IN) - in);
	expect(counter(FALLBACK) == fallbacks, FALLBACK " rose by %ld",
	       counter(FALLBACK) - fallbacks);
	pages = counter(PAGES_IN) - pages;
	expect(pages >= 3 * THP_PAGES && pages <= 3 * THP_PAGES + OTHER_PAGES,
	       PAGES_IN " rose by %ld, not %d", pages, 3 * THP_PAGES);
	/* The kernel adds up the per-CPU counts every two seconds. */
	while (cgroup_event("memory.stat", WHOLE_IN) != 3 && now() < end)
		usleep(100000);
	expect(cgroup_event("memory.stat", WHOLE_IN) == 3,
	       "memory.stat has " WHOLE_IN " %ld, not 3",
	       cgroup_event("memory.stat", WHOLE_IN));
}

/* The first access writes. */
static void written(void)
{
	struct area area = swapped_out(2, "always");

	area_write(&area, 7, LAST_BYTE);
	memset(area_page(&area, 7), 0, PAGE_SIZE);
	area_write(&area, 7, LAST_BYTE);
	area_write(&area, THP_PAGES + 500, WHOLE);
	expect_whole(&area, "after one page of each was written");
	/* And out again, with what was written. */
	area_swap_out(&area);
	read_one_of_each(&area);
	expect_whole(&area, "the second time");
}

/* Its cluster is free as a whole, or the second time there is none. */
static void cluster_is_free(void)
{
	/* Swap has place for 127. */
	struct area area = swapped_out(100, "always");
	int i;

	for (i = 0; i < 3; i++) {
		read_one_of_each(&area);
		expect(area_huge(&area) == area.thps,
		       "%ld of %d huge pages came back in turn %d",
		       area_huge(&area), area.thps, i);
		area_swap_out(&area);
	}
	read_one_of_each(&area);
	expect_whole(&area, "in the end");
}

/* Are its pages in swap as those of a huge page would be? */
static bool in_one_cluster(const struct area *area)
{
	long first = swap_slot_of(area->base);
	int i;

	for (i = 0; i < THP_PAGES; i++)
		if (swap_slot_of(area_page(area, i)) != first + i)
			return false;
	return first >= 0 && first % THP_PAGES == 0;
}

static void page_out_in_order(const struct area *area)
{
	area_pageout(area);
	if (!in_one_cluster(area))
		skip("they are not in one cluster");
}

/* Small pages that are in swap as a huge page would be. */
static struct area small_pages_in_order(unsigned char content)
{
	struct area area = area_map(1);

	area_choose(&area, 0, THP_PAGES, content);
	area_fill_small(&area);
	page_out_in_order(&area);
	return area;
}

static void small_in_order(void)
{
	struct area area;

	need_policy("always");
	area = small_pages_in_order(WHOLE);
	read_page(&area, 100);
	expect_whole(&area, "after one page was read");
}

/* It is queued like any other, and what it does not need is given back. */
static void queued_again(void)
{
	struct area area;

	need_policy("always");
	set_threshold(USUAL_THRESHOLD);
	knob_set("shrink_underused", "0");
	area = area_alloc(2, SPARSE);
	area_swap_out(&area);
	read_one_of_each(&area);
	expect(area_huge(&area) == 2, "%ld of 2 came back", area_huge(&area));
	knob_set("shrink_underused", "1");
	expect_queued(2);
	trigger();
	expect_split(&area);
}

/* --- where --- */

static void never(void)
{
	struct area area = swapped_out(1, "never");
	long in = counter(WHOLE_IN);

	read_one_of_each(&area);
	expect_small(&area, "with never");
	expect(counter(WHOLE_IN) == in, WHOLE_IN " rose");
}

static void advised(void)
{
	struct area area = swapped_out(1, "madvise");

	read_one_of_each(&area);
	expect_whole(&area, "with madvise and MADV_HUGEPAGE");
}

static void not_advised(void)
{
	struct area area;

	need_policy("madvise");
	knob_set("enabled", "always");
	area = area_map(1);
	/* Takes the advice back that area_map() gave. */
	expect(!madvise(area.base, area_size(&area), MADV_NOHUGEPAGE),
	       "MADV_NOHUGEPAGE: %s", strerror(errno));
	munmap(area.base, area_size(&area));
	expect(mmap(area.base, area_size(&area), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	       area.base, "mmap: %s", strerror(errno));
	area_choose(&area, 0, THP_PAGES, FIRST_BYTE);
	area_fill(&area);
	area_swap_out(&area);
	read_one_of_each(&area);
	expect_small(&area, "with madvise and without MADV_HUGEPAGE");
}

/* Without huge pages there are none from swap either. */
static void not_enabled(void)
{
	struct area area = swapped_out(1, "always");

	knob_set("enabled", "never");
	read_one_of_each(&area);
	expect_small(&area, "with enabled=never");
}

static void no_huge_page_wanted(void)
{
	struct area area = swapped_out(1, "always");

	madvise(area.base, area_size(&area), MADV_NOHUGEPAGE);
	read_one_of_each(&area);
	expect_small(&area, "with MADV_NOHUGEPAGE");
}

static void refuses(void)
{
	static const char * const bad[] = { "1", "inherit", "alwaysX", "\n" };
	char value[64];
	size_t i;

	need_policy("madvise");
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		expect(knob_write(POLICY, bad[i]) == -EINVAL,
		       POLICY " takes %s", bad[i]);
	knob_read(POLICY, value, sizeof(value));
	expect(!strcmp(value, "always [madvise] never"), POLICY " is %s", value);
}

/* --- not at any price --- */

static void expect_no_room(const struct area *area, const char *where)
{
	long fallbacks = counter(FALLBACK);

	read_page(area, 300);
	expect(!area_huge(area), "a huge page came back in spite of %s", where);
	expect(counter(FALLBACK) == fallbacks + 1, FALLBACK " rose by %ld",
	       counter(FALLBACK) - fallbacks);
}

/* Room for a huge page, but not for two. */
static void no_room_in_cgroup(void)
{
	struct area area = swapped_out(2, "always");
	char limit[32];

	snprintf(limit, sizeof(limit), "%ld",
		 cgroup_number("memory.current") + (long)(THP_SIZE + MB));
	cgroup_set("memory.high", limit);
	expect_no_room(&area, "memory.high");
	cgroup_set("memory.high", "max");
	read_page(&area, THP_PAGES);
	expect(area_huge(&area) == 1, "it does not come back without a limit");
	area_verify(&area);
}

#define RESERVE		"/proc/sys/vm/min_free_kbytes"
#define DISTANCE	"/proc/sys/vm/watermark_scale_factor"

static char reserve[32], distance[32];

static void watermarks_save(void)
{
	if (file_read(RESERVE, reserve, sizeof(reserve)) ||
	    file_read(DISTANCE, distance, sizeof(distance)))
		*reserve = '\0';
}

static void watermarks_restore(void)
{
	if (!*reserve)
		return;
	file_write(DISTANCE, distance);
	file_write(RESERVE, reserve);
}

/*
 * What is free is between the low and the high watermark, which are 30 % of a
 * zone apart: so nobody reclaims.
 */
static void no_room_in_zone(void)
{
	struct area area;
	char value[32];
	long min;

	/* For a moment, zones with less than others are reclaimed. */
	need_all_memory();
	area = swapped_out(1, "always");
	expect(!file_write("/proc/sys/vm/drop_caches", "1"), "drop_caches");
	min = meminfo("MemFree") - meminfo("MemTotal") * 45 / 100;
	if (!*reserve || min <= 0)
		skip("too little memory is free");
	snprintf(value, sizeof(value), "%ld", min / (long)KB);
	expect(!file_write(RESERVE, value) && !file_write(DISTANCE, "3000"),
	       "the watermarks cannot be set");
	expect_no_room(&area, "the watermarks");
	watermarks_restore();
	area_verify(&area);
}

/* --- other ways in --- */

static void collapse(void)
{
	struct area area = swapped_out(2, "never");
	long pages = counter(PAGES_IN);

	expect(!madvise(area.base, area_size(&area), MADV_COLLAPSE),
	       "MADV_COLLAPSE: %s", strerror(errno));
	expect(counter(PAGES_IN) - pages < 2 * THP_PAGES + OTHER_PAGES,
	       "%ld pages were read", counter(PAGES_IN) - pages);
	expect_whole(&area, "after MADV_COLLAPSE");
}

static void willneed(void)
{
	struct area area = swapped_out(2, "always");
	long pages;

	expect(!madvise(area.base, area_size(&area), MADV_WILLNEED),
	       "MADV_WILLNEED: %s", strerror(errno));
	expect(!area_rss_pages(&area), "%ld pages are mapped",
	       area_rss_pages(&area));
	pages = counter(PAGES_IN);
	read_one_of_each(&area);
	expect(counter(PAGES_IN) - pages <= OTHER_PAGES,
	       "%ld pages were read again", counter(PAGES_IN) - pages);
	expect_whole(&area, "after MADV_WILLNEED");
}

/* Its pages are mapped one by one, and none is copied. */
static void cached_is_not_copied(void)
{
	struct area area = swapped_out(1, "always");
	long copied = counter("ksm_swpin_copy");

	expect(!madvise(area.base, area_size(&area), MADV_WILLNEED),
	       "MADV_WILLNEED: %s", strerror(errno));
	knob_set(POLICY, "never");
	area_verify(&area);
	expect(counter("ksm_swpin_copy") <= copied, "%ld pages were copied",
	       counter("ksm_swpin_copy") - copied);
	expect(is_compound(area_page(&area, 0)) &&
	       is_compound(area_page(&area, 511)),
	       "its pages are not mapped but copied");
}

/* What nobody maps can be reclaimed, as often as it takes. */
static void cached_is_reclaimed(void)
{
	struct area area = swapped_out(2, "always");

	expect(!madvise(area.base, area_size(&area), MADV_WILLNEED),
	       "MADV_WILLNEED: %s", strerror(errno));
	expect(cgroup_number("memory.current") > 2 * (long)THP_SIZE,
	       "nothing was read");
	cgroup_write("memory.reclaim", "4M");
	cgroup_write("memory.reclaim", "4M");
	expect(cgroup_number("memory.current") < (long)THP_SIZE,
	       "%ld bytes are left in memory",
	       cgroup_number("memory.current"));
	read_one_of_each(&area);
	expect_whole(&area, "after it was reclaimed");
}

static void off(const char *policy, int want)
{
	struct area area = swapped_out(3, policy);

	expect(swap_stop(), "swapoff: %s", strerror(errno));
	expect(area_huge(&area) == want, "%ld huge pages came back, not %d",
	       area_huge(&area), want);
	area_verify(&area);
}

static void swapoff_whole(void)
{
	off("always", 3);
}

static void swapoff_never(void)
{
	off("never", 0);
}

static int start[2];

/* A process that has none of it reads what another one has in swap. */
static void read_other(void *arg)
{
	struct area *area = arg;
	struct iovec there = { area_page(area, 9), PAGE_SIZE };
	char page[PAGE_SIZE];
	struct iovec here = { page, PAGE_SIZE };

	hear(start[0]);
	expect(process_vm_readv(getppid(), &here, 1, &there, 1, 0) ==
	       (ssize_t)PAGE_SIZE, "process_vm_readv: %s", strerror(errno));
}

static void read_by_other(void)
{
	struct area area;
	pid_t reader;

	need_policy("always");
	expect(!pipe(start), "pipe: %s", strerror(errno));
	area = area_map(1);
	reader = helper_start(read_other, &area);
	area_choose(&area, 0, THP_PAGES, WHOLE);
	area_fill(&area);
	area_swap_out(&area);
	tell(start[1]);
	helper_join(reader);
	expect_whole(&area, "after another process has read a page");
}

/* --- what does not fit --- */

static void hole(void)
{
	struct area area = swapped_out(1, "always");

	area_drop_page(&area, 511);
	read_page(&area, 0);
	expect_small(&area, "with a hole");
}

static void half_protected(void)
{
	struct area area = swapped_out(1, "always");

	expect(!mprotect(area.base, THP_SIZE / 2, PROT_READ), "mprotect: %s",
	       strerror(errno));
	read_page(&area, 0);
	read_page(&area, 511);
	expect_small(&area, "half of it read-only");
}

static sigjmp_buf after_fault;

static void on_fault(int sig)
{
	siglongjmp(after_fault, sig);
}

static void read_only(void)
{
	struct area area = swapped_out(1, "always");

	expect(!mprotect(area.base, THP_SIZE, PROT_READ), "mprotect: %s",
	       strerror(errno));
	read_page(&area, 3);
	expect_whole(&area, "read-only");
	signal(SIGSEGV, on_fault);
	if (!sigsetjmp(after_fault, 1)) {
		touch(area_page(&area, 3));
		fail("it can be written");
	}
	expect(!mprotect(area.base, THP_SIZE, PROT_READ | PROT_WRITE),
	       "mprotect: %s", strerror(errno));
	area_write(&area, 3, WHOLE);
	area_verify(&area);
}

/* To an address where a huge page can be mapped, or not. */
static void moved(long shift)
{
	struct area area = swapped_out(1, "always");
	struct area other = area_map(2);
	char *to = other.base + shift;

	expect(mremap(area.base, THP_SIZE, THP_SIZE,
		      MREMAP_MAYMOVE | MREMAP_FIXED, to) == to,
	       "mremap: %s", strerror(errno));
	area.base = to;
	read_page(&area, 77);
	if (shift)
		expect_small(&area, "moved by 4K");
	else
		expect_whole(&area, "moved");
}

static void userfault(void)
{
	struct area area = swapped_out(1, "always");
	/* UFFDIO_REGISTER_MODE_MISSING */
	int fd = uffd_open(&area, 0, 1);

	read_page(&area, 0);
	expect_small(&area, "with a userfaultfd");
	close(fd);
}

/* Read back, it is as it was; written, it has changed. */
static void soft_dirty(void)
{
	struct area area = swapped_out(2, "always");

	expect(!file_write("/proc/self/clear_refs", "4"),
	       "no soft-dirty bits (CONFIG_MEM_SOFT_DIRTY)");
	read_page(&area, 0);
	expect(area_huge(&area) == 1, "it did not come back");
	expect(!page_has(area_page(&area, 0), PM_SOFT_DIRTY) &&
	       !page_has(area_page(&area, 5), PM_SOFT_DIRTY),
	       "what was only read is soft-dirty");
	area_write(&area, 5, WHOLE);
	expect(page_has(area_page(&area, 5), PM_SOFT_DIRTY),
	       "what was written is not soft-dirty");
	/* Written before it was swapped out */
	area_write(&area, THP_PAGES + 5, WHOLE);
	area_swap_out(&area);
	read_page(&area, THP_PAGES);
	expect(page_has(area_page(&area, THP_PAGES + 5), PM_SOFT_DIRTY),
	       "what had been written is not soft-dirty any more");
	expect(area_huge(&area) == 1, "it did not come back the second time");
	area_verify(&area);
}

static void mlocked(void)
{
	struct area area = swapped_out(1, "always");

	expect(!mlock(area.base, THP_SIZE), "mlock: %s", strerror(errno));
	expect_whole(&area, "after mlock");
	expect(smaps_kb("Locked", area.base, THP_SIZE) == (long)(THP_SIZE / KB),
	       "%ld kB are locked", smaps_kb("Locked", area.base, THP_SIZE));
	cgroup_write("memory.reclaim", "2M");
	expect_whole(&area, "after reclaim");
}

/* --- fork --- */

/* While both have it in swap, each gets its own. */
static void shared(void)
{
	struct area area = swapped_out(1, "always");
	int to_child[2], to_parent[2];
	pid_t child;

	expect(!pipe(to_child) && !pipe(to_parent), "pipe: %s",
	       strerror(errno));
	child = fork();
	expect(child >= 0, "fork: %s", strerror(errno));
	if (!child) {
		close(to_child[1]);
		read_page(&area, 1);
		expect_small(&area, "in the child");
		area_write(&area, 2, WHOLE);
		tell(to_parent[1]);
		hear(to_child[0]);
		area_verify(&area);
		_exit(PASS);
	}
	close(to_parent[1]);
	hear(to_parent[0]);
	read_page(&area, 3);
	area_verify(&area);
	memset(area_page(&area, 4), 0, PAGE_SIZE);
	area_write(&area, 4, FIRST_BYTE);
	tell(to_child[1]);
	helper_join(child);
	area_verify(&area);
}

/* The child has everything mapped that the parent has in swap. */
static void shared_in_cache(void)
{
	struct area area = swapped_out(1, "always");
	int to_child[2], to_parent[2];
	pid_t child;

	expect(!pipe(to_child) && !pipe(to_parent), "pipe: %s",
	       strerror(errno));
	expect(!madvise(area.base, THP_SIZE, MADV_WILLNEED), "MADV_WILLNEED");
	child = fork();
	expect(child >= 0, "fork: %s", strerror(errno));
	if (!child) {
		close(to_child[1]);
		area_verify(&area);
		expect(is_compound(area_page(&area, 9)),
		       "there was no huge page in the swap cache");
		tell(to_parent[1]);
		hear(to_child[0]);
		area_verify(&area);
		_exit(PASS);
	}
	close(to_parent[1]);
	hear(to_parent[0]);
	/* One user each: the parent. But the child has it mapped. */
	memset(area_page(&area, 4), 0, PAGE_SIZE);
	area_write(&area, 4, FIRST_BYTE);
	area_verify(&area);
	tell(to_child[1]);
	helper_join(child);
}

static void do_nothing(void *unused)
{
	(void)unused;
}

/* A child was there and is gone: nobody shares it, but the marks are gone. */
static void child_is_gone(void)
{
	struct area area = swapped_out(1, "always");

	helper_join(helper_start(do_nothing, NULL));
	read_page(&area, 6);
	expect_whole(&area, "after the child had ended");
	area_write(&area, 6, WHOLE);
	expect_whole(&area, "after it was written");
}

/*
 * A child has taken a reference to a page that the parent has in swap, and
 * unmapped it: what the parent writes may not show in it.
 */
static void pinned_by_child(void)
{
	struct area area = swapped_out(1, "always");
	char before[PAGE_SIZE], after[PAGE_SIZE];
	int out[2];
	pid_t child;

	expect(!madvise(area.base, THP_SIZE, MADV_WILLNEED), "MADV_WILLNEED");
	knob_set(POLICY, "never");
	expect(!pipe(out), "pipe: %s", strerror(errno));
	child = fork();
	expect(child >= 0, "fork: %s", strerror(errno));
	if (!child) {
		struct iovec part = { area_page(&area, 4), PAGE_SIZE };

		read_page(&area, 4);
		expect(is_compound(area_page(&area, 4)),
		       "there was no huge page in the swap cache");
		expect(vmsplice(out[1], &part, 1, 0) == (ssize_t)PAGE_SIZE,
		       "vmsplice: %s", strerror(errno));
		_exit(PASS);
	}
	helper_join(child);
	knob_set(POLICY, "always");
	/* Would have a huge page for each of its pages, gets none, and ends. */
	expect(!mlock(area.base, THP_SIZE), "mlock: %s", strerror(errno));
	memset(area_page(&area, 4), 0x55, PAGE_SIZE);
	expect(read(out[0], after, PAGE_SIZE) == (ssize_t)PAGE_SIZE,
	       "pipe: %s", strerror(errno));
	memset(before, 0x55, PAGE_SIZE);
	expect(memcmp(before, after, PAGE_SIZE),
	       "what the parent has written is in the child's page");
}

/* --- compressed in memory --- */

#define ZSWAP		"/sys/module/zswap/parameters/enabled"

static char zswap_was[8];

static void zswap_save(void)
{
	if (file_read(ZSWAP, zswap_was, sizeof(zswap_was)))
		*zswap_was = '\0';
}

static void zswap_restore(void)
{
	if (*zswap_was)
		file_write(ZSWAP, zswap_was);
}

/* It takes small pages; the disk has nothing of them. */
static void in_zswap(void)
{
	struct area area;

	need_policy("always");
	if (!*zswap_was)
		skip("no zswap (CONFIG_ZSWAP)");
	expect(!file_write(ZSWAP, "1"), "zswap cannot be enabled");
	/* It does not take what cannot be compressed. */
	area = small_pages_in_order(MIDDLE_BYTE);
	read_page(&area, 100);
	expect_small(&area, "in zswap");
}

/* --- two cgroups --- */

/* Half of the pages of one cluster belong to each. */
static void two_cgroups(void)
{
	struct area area;
	int i;

	need_policy("always");
	cgroup_make("main");
	cgroup_make("other");
	cgroup_go("main");
	area = area_map(1);
	area_choose(&area, 0, THP_PAGES, WHOLE);
	/* As in area_fill_small(). */
	stay_on_cpu(sched_getcpu());
	madvise(area.base, area_size(&area), MADV_NOHUGEPAGE);
	for (i = 0; i < THP_PAGES; i++) {
		if (i == THP_PAGES / 2)
			cgroup_go("other");
		area_write(&area, i, WHOLE);
	}
	madvise(area.base, area_size(&area), MADV_HUGEPAGE);
	page_out_in_order(&area);
	read_page(&area, 0);
	expect_small(&area, "charged to two cgroups");
	cgroup_go("main");
}

/* --- threads --- */

#define THREADS		6
#define RACED		24
#define ROUNDS		5

static struct area raced;

static void *race(void *seed)
{
	unsigned int random = (unsigned long)seed;
	int i;

	for (i = 0; i < 4 * RACED; i++)
		area_verify_page(&raced, rand_r(&random) % (RACED * THP_PAGES));
	return NULL;
}

static void threads(void)
{
	pthread_t thread[THREADS];
	unsigned long i;
	int round;
	long huge = 0;

	raced = swapped_out(RACED, "always");
	for (round = 0; round < ROUNDS; round++) {
		for (i = 0; i < THREADS; i++)
			expect(!pthread_create(&thread[i], NULL, race,
					       (void *)(i + 10 * round)),
			       "no thread");
		for (i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		area_verify(&raced);
		huge += area_huge(&raced);
		area_pageout(&raced);
	}
	note("%ld of %d came back whole", huge, ROUNDS * RACED);
	expect(huge >= ROUNDS * RACED / 2, "only %ld of %d came back whole", huge,
	       ROUNDS * RACED);
}

/* --- the trace --- */

static void traced(void)
{
	struct area area = swapped_out(2, "always");
	char text[64];

	trace_on("huge_memory/mm_thp_swapin", true);
	read_page(&area, 0);
	snprintf(text, sizeof(text), "addr=0x%lx,", (unsigned long)area.base);
	expect(trace_lines("mm_thp_swapin:", "result=mapped") == 1,
	       "%d events with mapped", trace_lines("mm_thp_swapin:", "result=mapped"));
	expect(trace_lines("mm_thp_swapin:", text) == 1, "no event with %s",
	       text);
	cgroup_set("memory.high", "1M");
	read_page(&area, THP_PAGES);
	expect(trace_lines("mm_thp_swapin:", "result=no_room") >= 1,
	       "no event with no_room");
	cgroup_set("memory.high", "max");
}

static const struct test tests[] = {
	TEST("swapin.whole", whole, .swap = true),
	TEST("swapin.counts", counts, .swap = true),
	TEST("swapin.written", written, .swap = true),
	TEST("swapin.cluster_is_free", cluster_is_free, .swap = true),
	TEST("swapin.small_in_order", small_in_order, .swap = true),
	TEST("swapin.queued_again", queued_again, .swap = true),
	TEST("swapin.never", never, .swap = true),
	TEST("swapin.advised", advised, .swap = true),
	TEST("swapin.not_advised", not_advised, .swap = true),
	TEST("swapin.not_enabled", not_enabled, .swap = true),
	TEST("swapin.no_huge_page_wanted", no_huge_page_wanted, .swap = true),
	TEST("swapin.refuses", refuses, .swap = true),
	TEST("swapin.no_room_in_cgroup", no_room_in_cgroup, .swap = true),
	TEST("swapin.no_room_in_zone", no_room_in_zone, .swap = true,
	     .before = watermarks_save, .after = watermarks_restore),
	TEST("swapin.collapse", collapse, .swap = true),
	TEST("swapin.willneed", willneed, .swap = true),
	TEST("swapin.cached_is_not_copied", cached_is_not_copied, .swap = true),
	TEST("swapin.cached_is_reclaimed", cached_is_reclaimed, .swap = true),
	TEST("swapin.swapoff", swapoff_whole, .swap = true),
	TEST("swapin.swapoff_never", swapoff_never, .swap = true),
	TEST("swapin.read_by_other", read_by_other, .swap = true),
	TEST("swapin.hole", hole, .swap = true),
	TEST("swapin.half_protected", half_protected, .swap = true),
	TEST("swapin.read_only", read_only, .swap = true),
	TEST_WITH("swapin.moved", moved, 0, .swap = true),
	TEST_WITH("swapin.moved_by_a_page", moved, PAGE_SIZE, .swap = true),
	TEST("swapin.userfaultfd", userfault, .swap = true),
	TEST("swapin.soft_dirty", soft_dirty, .swap = true),
	TEST("swapin.mlocked", mlocked, .swap = true),
	TEST("swapin.shared", shared, .swap = true),
	TEST("swapin.shared_in_cache", shared_in_cache, .swap = true),
	TEST("swapin.child_is_gone", child_is_gone, .swap = true),
	TEST("swapin.pinned_by_child", pinned_by_child, .swap = true),
	TEST("swapin.in_zswap", in_zswap, .swap = true, .before = zswap_save,
	     .after = zswap_restore),
	TEST("swapin.two_cgroups", two_cgroups, .swap = true),
	TEST("swapin.threads", threads, .swap = true, .seconds = 120),
	TEST("swapin.traced", traced, .swap = true),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
