// SPDX-License-Identifier: GPL-2.0
/*
 * While a huge page moves to another node, a migration entry takes the place of
 * its PMD. Whoever meets one waits for it or goes on, and loses nothing.
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thp_util.h"

#define MIGRATED	"thp_migration_success"
#define SECONDS		5.0
/* Fewer would say nothing. A busy machine takes longer for as many. */
#define MOVES		100
#define LIMIT		120

/* Moves huge pages of a process between two nodes, as fast as it can. */
struct mover {
	pid_t pid;
	const struct area *area;
	int nodes[2];
	pthread_t thread;
	atomic_bool stop;
	double began;
	long moved_before;
};

static void *move_all_the_time(void *arg)
{
	struct mover *mover = arg;
	int thp, turn = 0;

	while (!atomic_load(&mover->stop)) {
		turn = !turn;
		for (thp = 0; thp < mover->area->thps; thp++) {
			void *page = area_thp(mover->area, thp);
			int status;

			syscall(SYS_move_pages, mover->pid, 1L, &page,
				&mover->nodes[turn], &status, MPOL_MF_MOVE);
		}
	}
	return NULL;
}

/* This process has an area of its own at the same place. */
static void mover_start_for(struct mover *mover, const struct area *area,
			    pid_t pid)
{
	mover->pid = pid;
	mover->area = area;
	mover->nodes[0] = node_of(area->base);
	mover->nodes[1] = other_node(area->base);
	mover->began = now();
	mover->moved_before = counter(MIGRATED);
	atomic_store(&mover->stop, false);
	expect(!pthread_create(&mover->thread, NULL, move_all_the_time, mover),
	       "no thread");
}

static void mover_start(struct mover *mover, const struct area *area)
{
	mover_start_for(mover, area, 0);
}

static long moved(const struct mover *mover)
{
	return counter(MIGRATED) - mover->moved_before;
}

/* Is there more to be seen? The test's time limit ends it where nothing moves. */
static bool mover_goes_on(const struct mover *mover)
{
	return now() - mover->began < SECONDS || moved(mover) < MOVES;
}

/* The huge pages are still whole, and their content is what it was. */
static void mover_stop(struct mover *mover)
{
	atomic_store(&mover->stop, true);
	pthread_join(mover->thread, NULL);
	note("%ld huge pages moved", moved(mover));
	expect(area_huge(mover->area) == mover->area->thps,
	       "only %ld of %d huge pages left", area_huge(mover->area),
	       mover->area->thps);
	area_verify(mover->area);
}

/* --- userfaultfd --- */

/* What a monitor would place is there already. */
static void uffd_place(int fd, char *page, char *source)
{
	struct uffdio_copy copy = {
		.dst = (uintptr_t)page,
		.src = (uintptr_t)source,
		.len = PAGE_SIZE,
	};
	struct uffdio_zeropage zero = {
		.range = { (uintptr_t)page, PAGE_SIZE },
	};

	expect(ioctl(fd, UFFDIO_COPY, &copy) && errno == EEXIST,
	       "UFFDIO_COPY onto a huge page: %lld", copy.copy);
	expect(ioctl(fd, UFFDIO_ZEROPAGE, &zero) && errno == EEXIST,
	       "UFFDIO_ZEROPAGE onto a huge page: %lld", zero.zeropage);
}

static void uffd_refused(void)
{
	struct area area = area_alloc(1, DENSE), source = area_alloc(1, DENSE);
	int fd = uffd_open(&area, 0, UFFDIO_REGISTER_MODE_MISSING);
	struct mover mover;
	int page = 0;

	mover_start(&mover, &area);
	while (mover_goes_on(&mover)) {
		page = (page + 1) % THP_PAGES;
		uffd_place(fd, area_page(&area, page), source.base);
	}
	mover_stop(&mover);
}

/* --- protection --- */

static void protected(void)
{
	struct area area = area_alloc(1, DENSE);
	struct mover mover;

	mover_start(&mover, &area);
	while (mover_goes_on(&mover))
		expect(!mprotect(area.base, THP_SIZE, PROT_READ) &&
		       !mprotect(area.base, THP_SIZE, PROT_READ | PROT_WRITE),
		       "mprotect: %s", strerror(errno));
	mover_stop(&mover);
}

/* --- memory policies --- */

static void bind_to(const struct area *area, unsigned long nodes,
		    unsigned int flags)
{
	expect(!syscall(SYS_mbind, area->base, area_size(area), MPOL_BIND,
			&nodes, 8 * sizeof(nodes), flags),
	       "mbind with flags %#x: %s", flags, strerror(errno));
}

/* It is on a node that the policy allows, or is going to be moved there. */
static void bound(void)
{
	struct area area = area_alloc(1, DENSE);
	struct mover mover;
	unsigned long both;

	mover_start(&mover, &area);
	both = 1UL << mover.nodes[0] | 1UL << mover.nodes[1];
	while (mover_goes_on(&mover)) {
		bind_to(&area, both, MPOL_MF_STRICT);
		bind_to(&area, both, MPOL_MF_STRICT | MPOL_MF_MOVE);
		bind_to(&area, 1UL << mover.nodes[0], MPOL_MF_MOVE);
	}
	mover_stop(&mover);
}

/* migrate_pages() moves what lies behind, too. */
static void rest_moved(void)
{
	struct area rest = area_map(1), area;
	struct mover mover;

	area_choose(&rest, 0, DENSE, FIRST_BYTE);
	area_fill_small(&rest);
	area = area_alloc(1, DENSE);
	expect(area.base < rest.base, "the rest does not lie behind");
	mover_start(&mover, &area);
	while (mover_goes_on(&mover)) {
		int other = other_node(rest.base);
		unsigned long from = 1UL << node_of(rest.base);
		unsigned long to = 1UL << other;
		int last = THP_PAGES - 1;

		expect(syscall(SYS_migrate_pages, 0, 8 * sizeof(from), &from,
			       &to) >= 0, "migrate_pages: %s", strerror(errno));
		expect(node_of(rest.base) == other &&
		       node_of(area_page(&rest, last)) == other,
		       "migrate_pages left what lies behind a huge page");
	}
	area_verify(&rest);
	mover_stop(&mover);
}

/* --- collapse --- */

static void collapsed(void)
{
	struct area area = area_alloc(1, DENSE);
	struct mover mover;

	mover_start(&mover, &area);
	while (mover_goes_on(&mover))
		expect(!madvise(area.base, THP_SIZE, MADV_COLLAPSE),
		       "MADV_COLLAPSE of a huge page: %s", strerror(errno));
	mover_stop(&mover);
}

/* --- soft-dirty --- */

/* A page that was clean and becomes dirty, by a write that nothing stops. */
static void write_tracked(void)
{
	struct area area = area_alloc(1, DENSE);
	struct mover mover;
	int rounds = 0;

	if (!page_has(area.base, PM_SOFT_DIRTY))
		skip("no soft-dirty bit (CONFIG_MEM_SOFT_DIRTY)");
	mover_start(&mover, &area);
	while (mover_goes_on(&mover)) {
		expect(!madvise(area.base, THP_SIZE, MADV_FREE),
		       "MADV_FREE: %s", strerror(errno));
		expect(!file_write("/proc/self/clear_refs", "4"),
		       "clear_refs cannot be written");
		area_write(&area, 0, FIRST_BYTE);
		expect(page_has(area.base, PM_SOFT_DIRTY),
		       "round %d: soft-dirty was lost", rounds);
		rounds++;
	}
	note("%d rounds", rounds);
	mover_stop(&mover);
}

/* --- core dump --- */

#define CORE_PATTERN	"/proc/sys/kernel/core_pattern"
#define CORE		"/tmp/thp_migrating.core"
/* One that moves while it is dumped shows the hazard; most dumps see several. */
#define MOVES_IN_DUMPS	20

static char saved_pattern[128];

static void core_prepare(void)
{
	if (!file_read(CORE_PATTERN, saved_pattern, sizeof(saved_pattern)))
		file_write(CORE_PATTERN, CORE ".%p");
}

static void core_restore(void)
{
	file_write(CORE_PATTERN, saved_pattern);
}

/* Reads memory of the dead process from its core file. */
static void core_read(int fd, uintptr_t address, void *to, size_t size)
{
	Elf64_Phdr part;
	Elf64_Ehdr head;
	int i;

	expect(pread(fd, &head, sizeof(head), 0) == sizeof(head) &&
	       !memcmp(head.e_ident, ELFMAG, SELFMAG), "no core file");
	for (i = 0; i < head.e_phnum; i++) {
		expect(pread(fd, &part, sizeof(part), head.e_phoff +
			     i * sizeof(part)) == sizeof(part), "no header");
		if (part.p_type != PT_LOAD || address < part.p_vaddr ||
		    address + size > part.p_vaddr + part.p_filesz)
			continue;
		expect(pread(fd, to, size, part.p_offset + address -
			     part.p_vaddr) == (ssize_t)size, "short core file");
		return;
	}
	fail("the core file does not have the area");
}

struct dumper {
	struct area *area;
	int ready[2], go[2];
};

static void dump_core(void *arg)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	struct dumper *dumper = arg;

	expect(!setrlimit(RLIMIT_CORE, &all), "setrlimit: %s", strerror(errno));
	area_fill(dumper->area);
	tell(dumper->ready[1]);
	hear(dumper->go[0]);
	abort();
}

/* This process and the one that dies have the same content at this place. */
static void core_compare(const struct area *area, pid_t pid)
{
	int i, lost = 0, fd;
	char *content = malloc(area_size(area)), path[64];

	snprintf(path, sizeof(path), CORE ".%d", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	expect(fd >= 0 && content, "%s: %s", path, strerror(errno));
	core_read(fd, (uintptr_t)area->base, content, area_size(area));
	close(fd);
	unlink(path);
	for (i = 0; i < area->thps * THP_PAGES; i++)
		lost += memcmp(area_page(area, i), content + i * PAGE_SIZE,
			       PAGE_SIZE) != 0;
	free(content);
	expect(!lost, "%d of %d pages are not what they were in the core file",
	       lost, area->thps * THP_PAGES);
}

/* Lets a process die while its huge pages move; returns how many did. */
static long dump_once(struct area *area)
{
	struct dumper dumper = { .area = area };
	struct mover mover;
	int i, status;
	long count;
	pid_t pid;

	madvise(area->base, area_size(area), MADV_DONTNEED);
	expect(!pipe(dumper.ready) && !pipe(dumper.go), "pipe: %s",
	       strerror(errno));
	pid = helper_start(dump_core, &dumper);
	area_fill(area);
	hear(dumper.ready[0]);
	mover_start_for(&mover, area, pid);
	tell(dumper.go[1]);
	expect(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) &&
	       WCOREDUMP(status), "no core dump: status %#x", status);
	count = moved(&mover);
	mover_stop(&mover);
	core_compare(area, pid);
	for (i = 0; i < 2; i++) {
		close(dumper.ready[i]);
		close(dumper.go[i]);
	}
	return count;
}

static void dumped(void)
{
	struct area area = area_map(4);
	long moves = 0;
	int i;

	if (access(CORE_PATTERN, F_OK))
		skip("no core dumps (CONFIG_COREDUMP)");
	for (i = 0; i < area.thps; i++)
		area_choose(&area, i, THP_PAGES, FIRST_BYTE);
	while (moves < MOVES_IN_DUMPS)
		moves += dump_once(&area);
}

/* --- what /proc says --- */

#define MET	5

/* Memory is mapped, and not in swap, while it moves. */
static void smaps_right(void)
{
	struct area area = area_alloc(1, DENSE);
	long all = area_size(&area) / KB, met = 0;
	struct mover mover;
	int page = 0;

	mover_start(&mover, &area);
	while (mover_goes_on(&mover) || met < MET) {
		long rss = smaps_kb("Rss", area.base, THP_SIZE);
		long huge = smaps_kb("AnonHugePages", area.base, THP_SIZE);
		long swap = smaps_kb("Swap", area.base, THP_SIZE);

		expect(rss == all && huge == all && !swap,
		       "%ld kB mapped, %ld kB by huge pages, %ld kB in swap",
		       rss, huge, swap);
		/* This is how pagemap shows a migration entry. */
		met += page_has(area.base, PM_SWAP);
		page = (page + 1) % THP_PAGES;
		area_verify_page(&area, page);
	}
	note("moving %ld times when looked at", met);
	mover_stop(&mover);
}

static const struct test tests[] = {
	TEST("migrating.uffd_refused", uffd_refused, .seconds = LIMIT),
	TEST("migrating.protected", protected, .seconds = LIMIT),
	TEST("migrating.bound", bound, .seconds = LIMIT),
	TEST("migrating.rest_moved", rest_moved, .seconds = LIMIT),
	TEST("migrating.collapsed", collapsed, .seconds = LIMIT),
	TEST("migrating.write_tracked", write_tracked, .seconds = LIMIT),
	TEST("migrating.smaps_right", smaps_right, .seconds = LIMIT),
	TEST("migrating.dumped", dumped, .seconds = LIMIT,
	     .before = core_prepare, .after = core_restore),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
