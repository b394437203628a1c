// SPDX-License-Identifier: GPL-2.0
/*
 * A split keeps what else is known about a zero page: soft-dirty, userfaultfd's
 * write protection and hardware poison.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "thp_util.h"

#define LIVE_PAGES	100

static void split(const struct area *area)
{
	split_range(getpid(), area->base, area_size(area));
}

/* --- soft-dirty --- */

static void clear_soft_dirty(void)
{
	expect(!file_write("/proc/self/clear_refs", "4"),
	       "clear_refs cannot be written");
}

/*
 * For zero pages only: x86 also marks a dirty page as soft-dirty when it maps
 * it again, which is harmless. The zeropage is never dirty.
 */
static void expect_soft_dirty(const struct area *area, bool (*want)(int page))
{
	int i;

	for (i = 0; i < THP_PAGES; i++)
		expect(page_has(area_page(area, i), PM_SOFT_DIRTY) == want(i),
		       "page %d: soft-dirty %s", i,
		       want(i) ? "lost" : "gained");
}

static bool each(int page)
{
	(void)page;
	return true;
}

static bool none(int page)
{
	(void)page;
	return false;
}

static bool some(int page)
{
	return page % 10 == 1;
}

static void soft_dirty_kept(void)
{
	struct area dirty = area_alloc(1, 0), clean = area_alloc(1, 0);
	struct area mixed = area_alloc(1, 0);
	int i;

	if (!page_has(dirty.base, PM_SOFT_DIRTY))
		skip("no soft-dirty bit (CONFIG_MEM_SOFT_DIRTY)");
	/* Mapped by PTEs, so that single pages of it can become dirty. */
	expect(!mprotect(mixed.base, PAGE_SIZE, PROT_READ) &&
	       !mprotect(mixed.base, PAGE_SIZE, PROT_READ | PROT_WRITE),
	       "mprotect: %s", strerror(errno));
	clear_soft_dirty();
	touch(dirty.base);
	for (i = 0; i < THP_PAGES; i++)
		if (some(i))
			touch(area_page(&mixed, i));
	expect_soft_dirty(&dirty, each);
	expect_soft_dirty(&clean, none);
	expect_soft_dirty(&mixed, some);

	split(&dirty);
	split(&clean);
	split(&mixed);
	expect_soft_dirty(&dirty, each);
	expect_soft_dirty(&clean, none);
	expect_soft_dirty(&mixed, some);
	area_expect_remapped(&dirty);
	area_expect_remapped(&clean);
	area_expect_remapped(&mixed);
}

/* --- userfaultfd --- */

/* The address of the next event, or NULL if none comes in time. */
static char *uffd_event(int fd, int timeout_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	struct uffd_msg msg;

	if (poll(&ready, 1, timeout_ms) != 1)
		return NULL;
	expect(read(fd, &msg, sizeof(msg)) == sizeof(msg), "userfaultfd: %s",
	       strerror(errno));
	expect(msg.event == UFFD_EVENT_PAGEFAULT, "event %#x", msg.event);
	return (char *)(uintptr_t)(msg.arg.pagefault.address &
				   ~(PAGE_SIZE - 1));
}

static void uffd_protect(int fd, const void *start, size_t size, bool on)
{
	struct uffdio_writeprotect wp = {
		.range = { (uintptr_t)start, size },
		.mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0,
	};

	expect(!ioctl(fd, UFFDIO_WRITEPROTECT, &wp), "UFFDIO_WRITEPROTECT: %s",
	       strerror(errno));
}

static void *write_byte(void *page)
{
	__atomic_store_n((char *)page, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void uffd_wp_kept(void)
{
	struct area area = area_alloc(1, LIVE_PAGES);
	int fd = uffd_open(&area, UFFD_FEATURE_PAGEFAULT_FLAG_WP,
			   UFFDIO_REGISTER_MODE_WP);
	pthread_t writer;
	char *page = NULL;
	int i;

	uffd_protect(fd, area.base, area_size(&area), true);
	split(&area);
	area_expect_remapped(&area);
	for (i = 0; i < THP_PAGES; i++) {
		expect(page_has(area_page(&area, i), PM_UFFD_WP),
		       "page %d: write protection lost", i);
		if (area.live[i] == ZERO)
			page = area_page(&area, i);
	}
	area_verify(&area);

	expect(!pthread_create(&writer, NULL, write_byte, page), "no thread");
	expect(uffd_event(fd, 5000) == page, "no event for a protected page");
	uffd_protect(fd, page, PAGE_SIZE, false);
	pthread_join(writer, NULL);
	expect(*page == 1 && !is_zeropage(page), "the write was lost");
	*page = 0;
	area_verify(&area);
}

static void *read_all(void *area)
{
	area_verify(area);
	return NULL;
}

/* A monitor of missing pages has placed all pages itself: none is missing. */
static void uffd_missing_silent(void)
{
	struct area area = area_map(1), source = area_alloc(1, 0);
	int fd = uffd_open(&area, 0, UFFDIO_REGISTER_MODE_MISSING);
	struct uffdio_copy copy = {
		.dst = (uintptr_t)area.base,
		.src = (uintptr_t)source.base,
		.len = THP_SIZE,
	};
	struct uffdio_range range = { (uintptr_t)area.base, THP_SIZE };
	pthread_t reader;
	char *missing;

	expect(!ioctl(fd, UFFDIO_COPY, &copy), "UFFDIO_COPY: %s",
	       strerror(errno));
	expect(!madvise(area.base, THP_SIZE, MADV_COLLAPSE),
	       "MADV_COLLAPSE: %s", strerror(errno));
	expect(area_huge(&area) == 1, "MADV_COLLAPSE made no huge page");
	split(&area);
	expect(!pthread_create(&reader, NULL, read_all, &area), "no thread");
	missing = uffd_event(fd, 1000);
	expect(!ioctl(fd, UFFDIO_UNREGISTER, &range), "UFFDIO_UNREGISTER: %s",
	       strerror(errno));
	pthread_join(reader, NULL);
	expect(!missing, "page %zu: reported as missing",
	       (missing - area.base) / PAGE_SIZE);
	area_expect_remapped(&area);
}

/* --- hardware poison --- */

static sigjmp_buf after_sigbus;

static void on_sigbus(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	siglongjmp(after_sigbus, info->si_code == BUS_MCEERR_AR ? 1 : 2);
}

static void poisoned_page_kept(void)
{
	struct sigaction action = {
		.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO,
	};
	struct area area = area_alloc(1, LIVE_PAGES);
	int bad = 0, signalled;
	unsigned long pfn;

	while (area.live[bad] != ZERO)
		bad++;
	pfn = pfn_of(area_page(&area, bad));
	expect(!sigaction(SIGBUS, &action, NULL), "sigaction: %s",
	       strerror(errno));
	if (madvise(area_page(&area, bad), PAGE_SIZE, MADV_HWPOISON)) {
		if (errno == EINVAL)
			skip("no MADV_HWPOISON (CONFIG_MEMORY_FAILURE)");
		fail("MADV_HWPOISON: %s", strerror(errno));
	}
	signalled = sigsetjmp(after_sigbus, 1);
	if (!signalled)
		(void)__atomic_load_n(area_page(&area, bad), __ATOMIC_RELAXED);
	poison_clear(pfn);
	expect(signalled, "a poisoned page was read as if it were good");
	expect(signalled == 1, "SIGBUS, but not for a memory error");

	area_drop_page(&area, bad);
	area_expect_remapped(&area);
	area_verify(&area);
}

static const struct test tests[] = {
	TEST("zero_remap.soft_dirty_kept", soft_dirty_kept),
	TEST("zero_remap.uffd_wp_kept", uffd_wp_kept),
	TEST("zero_remap.uffd_missing_silent", uffd_missing_silent),
	TEST("zero_remap.poisoned_page_kept", poisoned_page_kept),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
