// SPDX-License-Identifier: GPL-2.0
/*
 * What can happen to a range while its huge page is read from swap: the swap
 * device holds the request back until it has. And pages that cannot be read.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thp_mapper.h"
#include "thp_util.h"

#define POLICY		"swapin_enabled"
#define WHOLE_IN	"thp_swpin"
#define WHOLE_OUT	"thp_swpout"
#define FALLBACK	"thp_swpin_fallback"
#define PAGES_IN	"pswpin"
#define WAIT_SECONDS	10.0
#define FIRST		5
#define BAD		37
#define KILLED_THPS	4

static struct area swapped_out(int thps)
{
	struct area area;

	need_mapper();
	knob_set(POLICY, "always");
	set_threshold(511);
	/* The test needs its own pages while the device is held. */
	expect(!mlockall(MCL_CURRENT), "mlockall: %s", strerror(errno));
	area = area_alloc(thps, THP_PAGES);
	area_swap_out(&area);
	return area;
}

/* --- a thread that reads, and waits for the device --- */

struct reader {
	pthread_t thread;
	char *page;
	atomic_int tid;
	atomic_bool done;
};

static void *read_it(void *arg)
{
	struct reader *reader = arg;

	atomic_store(&reader->tid, syscall(SYS_gettid));
	(void)*(volatile char *)reader->page;
	atomic_store(&reader->done, true);
	return NULL;
}

static char state_of(pid_t pid, pid_t tid)
{
	char path[64], text[512], state = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	if (!file_read(path, text, sizeof(text)))
		sscanf(text, "%*d (%*[^)]) %c", &state);
	return state;
}

/* Until it waits for the device, or for somebody who does. */
static void wait_for_sleep(pid_t pid, pid_t tid)
{
	double end = now() + WAIT_SECONDS;
	int asleep = 0;

	while (asleep < 3) {
		char state = state_of(pid, tid);

		expect(now() < end, "nobody waits for the device: %c", state);
		asleep = state == 'D' ? asleep + 1 : 0;
		usleep(10000);
	}
}

static void reader_start(struct reader *reader, char *page)
{
	reader->page = page;
	atomic_store(&reader->tid, 0);
	atomic_store(&reader->done, false);
	expect(!pthread_create(&reader->thread, NULL, read_it, reader),
	       "no thread");
	while (!atomic_load(&reader->tid))
		usleep(1000);
	wait_for_sleep(getpid(), atomic_load(&reader->tid));
	expect(!atomic_load(&reader->done), "it did not wait for the device");
}

static void reader_end(struct reader *reader)
{
	pthread_join(reader->thread, NULL);
}

/* A huge page that is being read. */
static struct area being_read(struct reader *reader)
{
	struct area area = swapped_out(1);

	mapper_hold();
	reader_start(reader, area_page(&area, FIRST));
	return area;
}

/* --- what happens meanwhile --- */

/* Nobody has any of it: memory and swap are given back. */
static void expect_swap_free(void)
{
	double end = now() + WAIT_SECONDS;
	long most = THP_SIZE / 2;

	while (now() < end && (cgroup_number("memory.swap.current") > most ||
			       cgroup_number("memory.current") > 2 * most))
		usleep(50000);
	expect(cgroup_number("memory.swap.current") <= most,
	       "%ld bytes are left in swap",
	       cgroup_number("memory.swap.current"));
	expect(cgroup_number("memory.current") <= 2 * most,
	       "%ld bytes are left in memory", cgroup_number("memory.current"));
}

static void nothing(void)
{
	long in = counter(WHOLE_IN), pages;
	struct reader reader;
	struct area area;

	area = being_read(&reader);
	pages = counter(PAGES_IN);
	mapper_release();
	reader_end(&reader);
	expect_whole(&area, "after it was read");
	expect(counter(WHOLE_IN) == in + 1, WHOLE_IN " rose by %ld",
	       counter(WHOLE_IN) - in);
	expect(counter(PAGES_IN) - pages <= OTHER_PAGES,
	       "%ld pages were read again", counter(PAGES_IN) - pages);
}

/* The others wait for the same request, and map nothing small meanwhile. */
static void others_read(void)
{
	struct reader first, second, third;
	struct area area;
	long pages;

	area = being_read(&first);
	reader_start(&second, area_page(&area, 6));
	reader_start(&third, area_page(&area, 511));
	pages = counter(PAGES_IN);
	mapper_release();
	reader_end(&first);
	reader_end(&second);
	reader_end(&third);
	expect_whole(&area, "after three threads have read it");
	expect(counter(PAGES_IN) - pages <= OTHER_PAGES,
	       "%ld pages were read again", counter(PAGES_IN) - pages);
}

static void dropped(void)
{
	long fallbacks = counter(FALLBACK);
	struct reader reader;
	struct area area;

	area = being_read(&reader);
	area_drop_page(&area, 100);
	mapper_release();
	reader_end(&reader);
	expect(counter(FALLBACK) == fallbacks + 1, FALLBACK " rose by %ld",
	       counter(FALLBACK) - fallbacks);
	area_verify(&area);
	expect(!area_huge(&area), "a huge page, though one page was dropped");
}

/* All of it goes away, and something else is there. */
static void replaced(void)
{
	struct reader reader;
	struct area area;
	int i;

	area = being_read(&reader);
	expect(mmap(area.base, THP_SIZE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	       area.base, "mmap: %s", strerror(errno));
	area_write(&area, 0, WHOLE);
	for (i = 1; i < THP_PAGES; i++)
		area.live[i] = GONE;
	/* A huge page would be welcome here, but not the old one. */
	expect(!madvise(area.base, THP_SIZE, MADV_HUGEPAGE),
	       "MADV_HUGEPAGE: %s", strerror(errno));
	mapper_release();
	reader_end(&reader);
	area_verify(&area);
	expect_swap_free();
}

static void protected(void)
{
	struct reader reader;
	struct area area;

	area = being_read(&reader);
	expect(!mprotect(area.base, THP_SIZE, PROT_READ), "mprotect: %s",
	       strerror(errno));
	mapper_release();
	reader_end(&reader);
	expect_whole(&area, "read-only");
	expect(!mprotect(area.base, THP_SIZE, PROT_READ | PROT_WRITE),
	       "mprotect: %s", strerror(errno));
	area_write(&area, 9, WHOLE);
	area_verify(&area);
}

static void split_vma(void)
{
	struct reader reader;
	struct area area;

	area = being_read(&reader);
	expect(!mprotect(area_page(&area, 256), THP_SIZE / 2, PROT_READ),
	       "mprotect: %s", strerror(errno));
	mapper_release();
	reader_end(&reader);
	area_verify(&area);
	expect(!area_huge(&area), "a huge page across two mappings");
}

static void moved(void)
{
	struct area area, other;
	struct reader reader;

	area = swapped_out(1);
	other = area_map(1);
	mapper_hold();
	reader_start(&reader, area_page(&area, FIRST));
	expect(mremap(area.base, THP_SIZE, THP_SIZE,
		      MREMAP_MAYMOVE | MREMAP_FIXED, other.base) == other.base,
	       "mremap: %s", strerror(errno));
	/* So that the reader finds something. */
	expect(mmap(area.base, THP_SIZE, PROT_READ,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	       area.base, "mmap: %s", strerror(errno));
	area.base = other.base;
	mapper_release();
	reader_end(&reader);
	area_verify(&area);
}

static void userfault(void)
{
	struct reader reader;
	struct area area;
	int fd;

	area = being_read(&reader);
	fd = uffd_open(&area, 0, 1);
	mapper_release();
	reader_end(&reader);
	expect(!area_huge(&area), "a huge page where a userfaultfd is");
	area_verify(&area);
	close(fd);
}

static int child_waits[2], child_has[2];

static void verify_copy(void *arg)
{
	struct area *area = arg;

	hear(child_waits[0]);
	area_verify(area);
	memset(area_page(area, 8), 0, PAGE_SIZE);
	area_write(area, 8, FIRST_BYTE);
	area_verify(area);
	tell(child_has[1]);
}

static void forked(void)
{
	struct reader reader;
	struct area area;
	pid_t child;

	area = being_read(&reader);
	expect(!pipe(child_waits) && !pipe(child_has), "pipe: %s",
	       strerror(errno));
	child = helper_start(verify_copy, &area);
	close(child_has[1]);
	mapper_release();
	reader_end(&reader);
	expect(!area_huge(&area), "a huge page of one, which two have in swap");
	area_verify(&area);
	memset(area_page(&area, 20), 0, PAGE_SIZE);
	area_write(&area, 20, FIRST_BYTE);
	tell(child_waits[1]);
	hear(child_has[0]);
	area_verify(&area);
	helper_join(child);
}

/* Until all of it is being written, or nothing; memory.stat may be seconds old. */
static void wait_writeback(bool begun)
{
	double end = now() + WAIT_SECONDS;

	while (cgroup_event("memory.stat", "file_writeback") !=
	       (begun ? (long)THP_SIZE : 0)) {
		expect(now() < end, "the writing does not %s",
		       begun ? "begin" : "end");
		usleep(10000);
	}
}

/*
 * A huge page that is mapped while it is in the swap cache can be told clean
 * with MADV_FREE, and is then what was swapped out once.
 */
static void under_writeback(void)
{
	const char newer = 0x5a;
	struct area area;
	long out;
	int i;

	need_mapper();
	knob_set(POLICY, "always");
	set_threshold(511);
	area = area_alloc(1, THP_PAGES);
	out = counter(WHOLE_OUT);
	mapper_hold();
	area_pageout(&area);
	expect(counter(WHOLE_OUT) == out + 1, "not swapped out as a whole");
	wait_writeback(true);
	(void)*(volatile char *)area_page(&area, FIRST);
	mapper_release();
	wait_writeback(false);

	memset(area.base, newer, THP_SIZE);
	expect(!madvise(area.base, THP_SIZE, MADV_FREE), "MADV_FREE: %s",
	       strerror(errno));
	area_pageout(&area);
	for (i = 0; i < THP_PAGES; i++) {
		char found = *area_page(&area, i);

		expect(!found || found == newer,
		       "page %d is as it was before it was written", i);
	}
}

static void *turn_off(void *error)
{
	*(int *)error = mapper_swapoff();
	return NULL;
}

static void swap_goes_off(void)
{
	struct reader reader;
	struct area area;
	pthread_t thread;
	int error = 1;

	area = being_read(&reader);
	expect(!pthread_create(&thread, NULL, turn_off, &error), "no thread");
	usleep(300000);
	mapper_release();
	reader_end(&reader);
	pthread_join(thread, NULL);
	expect(!error, "swapoff: %s", strerror(-error));
	area_verify(&area);
	expect(!smaps_kb("Swap", area.base, THP_SIZE), "it is still in swap");
}

static struct area kept;
static long pages_at_kill;

static void read_kept(void *unused)
{
	(void)unused;
	(void)*(volatile char *)area_page(&kept, FIRST);
}

static void swap_out_and_read(void *unused)
{
	(void)unused;
	kept = swapped_out(1);
	tell(child_has[1]);
	hear(child_waits[0]);
	read_kept(NULL);
}

static void swap_out_and_collapse(void *unused)
{
	(void)unused;
	kept = swapped_out(KILLED_THPS);
	tell(child_has[1]);
	hear(child_waits[0]);
	madvise(kept.base, area_size(&kept), MADV_COLLAPSE);
}

/* Starts a helper that reads from swap, and kills it meanwhile. */
static void kill_reader(void (*reader)(void *))
{
	double end = now() + WAIT_SECONDS;
	long before;
	pid_t child;
	int status;

	need_mapper();
	expect(!pipe(child_waits) && !pipe(child_has), "pipe: %s",
	       strerror(errno));
	child = helper_start(reader, NULL);
	close(child_has[1]);
	hear(child_has[0]);
	before = counter(PAGES_IN);
	mapper_hold();
	tell(child_waits[1]);
	/* They count as soon as the device is asked for them. */
	while ((pages_at_kill = counter(PAGES_IN)) < before + THP_PAGES) {
		expect(now() < end, "it does not read");
		usleep(10000);
	}
	wait_for_sleep(child, child);
	kill(child, SIGKILL);
	mapper_release();
	expect(waitpid(child, &status, 0) == child && WIFSIGNALED(status),
	       "it was not killed");
}

/* What was read for it is given back, in memory and in swap. */
static void killed(void)
{
	kill_reader(swap_out_and_read);
	expect_swap_free();
}

static void killed_in_collapse(void)
{
	long pages;

	kill_reader(swap_out_and_collapse);
	pages = counter(PAGES_IN) - pages_at_kill;
	expect(pages <= OTHER_PAGES,
	       "it was killed, and %ld pages were read", pages);
	expect_swap_free();
}

/* --- pages that cannot be read --- */

static sigjmp_buf after_sigbus;

static void on_sigbus(int sig)
{
	(void)sig;
	siglongjmp(after_sigbus, 1);
}

static bool readable(const struct area *area, int page)
{
	signal(SIGBUS, on_sigbus);
	if (sigsetjmp(after_sigbus, 1))
		return false;
	(void)*(volatile char *)area_page(area, page);
	return true;
}

static void expect_all_but(const struct area *area, int bad)
{
	int i;

	for (i = 0; i < area->thps * THP_PAGES; i++) {
		if (i == bad) {
			expect(!readable(area, i), "page %d can be read", i);
			continue;
		}
		expect(readable(area, i), "page %d cannot be read", i);
		area_verify_page(area, i);
	}
	expect(!area_huge(area), "a huge page without content");
}

static struct area with_bad_page(void)
{
	struct area area;

	need_read_errors();
	area = swapped_out(1);
	mapper_fail_page(swap_slot_of(area_page(&area, BAD)));
	return area;
}

static void page_is_bad(void)
{
	struct area area = with_bad_page();

	expect(readable(&area, 0), "page 0 cannot be read");
	expect_all_but(&area, BAD);
}

/* After it, all of the range is still in swap: it is not tried again. */
static void bad_page_first(void)
{
	struct area area = with_bad_page();
	long fallbacks = counter(FALLBACK);

	expect(!readable(&area, BAD), "page %d can be read", BAD);
	expect_all_but(&area, BAD);
	expect(counter(FALLBACK) == fallbacks + 1,
	       "all of it was read %ld times",
	       counter(FALLBACK) - fallbacks);
}

static void page_is_bad_to_others(void)
{
	struct reader first, second;
	struct area area = with_bad_page();

	mapper_hold();
	reader_start(&first, area_page(&area, FIRST));
	reader_start(&second, area_page(&area, 400));
	mapper_release();
	reader_end(&first);
	reader_end(&second);
	expect_all_but(&area, BAD);
}

static void page_is_bad_to_willneed(void)
{
	struct area area = with_bad_page();

	expect(!madvise(area.base, THP_SIZE, MADV_WILLNEED),
	       "MADV_WILLNEED: %s", strerror(errno));
	expect_all_but(&area, BAD);
}

static void page_is_bad_to_swapoff(void)
{
	struct area area = with_bad_page();
	int error;

	/* So that it finds a huge page that others have tried to read. */
	expect(!madvise(area.base, THP_SIZE, MADV_WILLNEED),
	       "MADV_WILLNEED: %s", strerror(errno));
	error = mapper_swapoff();
	expect(!error, "swapoff: %s", strerror(-error));
	expect_all_but(&area, BAD);
}

static void *watch(void *unused)
{
	(void)unused;
	sleep(WAIT_SECONDS);
	fail("mlock does not end");
	return NULL;
}

/* Each of its tries is a first one. It may say what it likes, but has to end. */
static void mlock_ends(const struct area *area)
{
	pthread_t thread;

	expect(!pthread_create(&thread, NULL, watch, NULL), "no thread");
	mlock(area->base, THP_SIZE);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	expect_all_but(area, BAD);
}

static void page_is_bad_to_mlock(void)
{
	struct area area = with_bad_page();

	mlock_ends(&area);
}

static void cached_is_bad_to_mlock(void)
{
	struct area area = with_bad_page();

	expect(!madvise(area.base, THP_SIZE, MADV_WILLNEED),
	       "MADV_WILLNEED: %s", strerror(errno));
	mlock_ends(&area);
}

#define HELD	.disk = true, .before = mapper_on, .after = mapper_off

static const struct test tests[] = {
	TEST("swapin.held", nothing, HELD),
	TEST("swapin.held_others_read", others_read, HELD),
	TEST("swapin.held_page_dropped", dropped, HELD),
	TEST("swapin.held_replaced", replaced, HELD),
	TEST("swapin.held_protected", protected, HELD),
	TEST("swapin.held_split", split_vma, HELD),
	TEST("swapin.held_moved", moved, HELD),
	TEST("swapin.held_userfaultfd", userfault, HELD),
	TEST("swapin.held_forked", forked, HELD),
	TEST("swapin.held_writeback", under_writeback, HELD),
	TEST("swapin.held_swapoff", swap_goes_off, HELD),
	TEST("swapin.held_killed", killed, HELD),
	TEST("swapin.held_collapse_killed", killed_in_collapse, HELD),
	TEST("swapin.page_is_bad", page_is_bad, HELD),
	TEST("swapin.bad_page_first", bad_page_first, HELD),
	TEST("swapin.page_is_bad_to_others", page_is_bad_to_others, HELD),
	TEST("swapin.page_is_bad_to_willneed", page_is_bad_to_willneed, HELD),
	TEST("swapin.page_is_bad_to_swapoff", page_is_bad_to_swapoff, HELD),
	TEST("swapin.page_is_bad_to_mlock", page_is_bad_to_mlock, HELD),
	TEST("swapin.cached_is_bad_to_mlock", cached_is_bad_to_mlock, HELD),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
