// SPDX-License-Identifier: GPL-2.0
/* Huge pages whose every byte is known, and what the kernel did to them. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mempolicy.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "thp_util.h"

#define FILL_TRIES	3

/* Different for every address, and no byte of it is zero. */
static unsigned long pattern(uintptr_t place)
{
	unsigned long x = place * 0x9e3779b97f4a7c15UL;

	return (x ^ x >> 29) | 0x0101010101010101UL;
}

size_t area_size(const struct area *area)
{
	return area->thps * THP_SIZE;
}

char *area_page(const struct area *area, int page)
{
	return area->base + page * PAGE_SIZE;
}

char *area_thp(const struct area *area, int thp)
{
	return area->base + thp * THP_SIZE;
}

/*
 * The area is aligned and lies inside a reservation without access, so the
 * kernel does not merge it with a neighbour and smaps shows it alone.
 */
struct area area_map(int thps)
{
	struct area area = { .thps = thps };
	size_t size = (thps + 2) * THP_SIZE;
	uintptr_t start;
	void *whole;

	whole = mmap(NULL, size, PROT_NONE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	expect(whole != MAP_FAILED, "mmap: %s", strerror(errno));
	start = ((uintptr_t)whole + THP_SIZE) & ~(THP_SIZE - 1);
	area.base = mmap((void *)start, area_size(&area),
			 PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	expect(area.base != MAP_FAILED, "mmap: %s", strerror(errno));
	area.origin = start;
	expect(!madvise(area.base, area_size(&area), MADV_HUGEPAGE),
	       "MADV_HUGEPAGE: %s", strerror(errno));
	area.live = calloc(thps, THP_PAGES);
	expect(area.live, "no memory");
	return area;
}

void area_free(struct area *area)
{
	munmap(area->base, area_size(area));
	free(area->live);
	area->live = NULL;
}

/* Spreads the live pages evenly over one huge page; the others are zero. */
void area_choose(struct area *area, int thp, int live_pages, enum live how)
{
	unsigned char *live = area->live + thp * THP_PAGES;
	int i;

	memset(live, ZERO, THP_PAGES);
	for (i = 0; i < live_pages; i++)
		live[i * THP_PAGES / live_pages] = how;
}

/* The one byte of the page that is not zero. */
static size_t live_byte(enum live live)
{
	switch (live) {
	case FIRST_BYTE:
		return 0;
	case MIDDLE_BYTE:
		return PAGE_SIZE / 2 + 1;
	default:
		return PAGE_SIZE - 1;
	}
}

/* Gives a page the content that live stands for. */
void area_write(struct area *area, int number, enum live live)
{
	uintptr_t place = area->origin + number * PAGE_SIZE;
	char *page = area_page(area, number);
	size_t i;

	area->live[number] = live;
	if (live == WHOLE)
		for (i = 0; i < PAGE_SIZE; i += 8)
			*(unsigned long *)(page + i) = pattern(place + i);
	else if (live != ZERO && live != GONE)
		page[live_byte(live)] = (char)pattern(place);
}

/* Takes whatever pages the kernel allocates, huge or not. */
void area_fill_any(struct area *area)
{
	int i;

	/* A huge page without a live byte still has to be faulted in. */
	for (i = 0; i < area->thps; i++)
		touch(area_thp(area, i));
	for (i = 0; i < area->thps * THP_PAGES; i++)
		area_write(area, i, area->live[i]);
}

void area_fill(struct area *area)
{
	int tries;

	for (tries = 0; tries < FILL_TRIES; tries++) {
		area_fill_any(area);
		if (area_huge(area) == area->thps)
			return;
		madvise(area->base, area_size(area), MADV_DONTNEED);
		file_write("/proc/sys/vm/compact_memory", "1");
	}
	fail("the kernel allocated no huge pages: memory too small or fragmented");
}

/*
 * Writes the same content to 4K pages, all of them private memory.
 *
 * Each CPU has new pages on a list of its own for a while, and gives out slots of
 * swap from a cluster of its own. From one CPU, all pages are paged out, in order.
 */
void area_fill_small(struct area *area)
{
	int i;

	stay_on_cpu(sched_getcpu());
	madvise(area->base, area_size(area), MADV_NOHUGEPAGE);
	for (i = 0; i < area->thps * THP_PAGES; i++)
		touch(area_page(area, i));
	area_fill_any(area);
	expect(!area_huge(area), "MADV_NOHUGEPAGE gave huge pages");
	madvise(area->base, area_size(area), MADV_HUGEPAGE);
}

/* The live pages take turns in where their live byte is. */
struct area area_alloc(int thps, int live_pages)
{
	struct area area = area_map(thps);
	int thp, page, turn = 0;

	for (thp = 0; thp < thps; thp++)
		area_choose(&area, thp, live_pages, WHOLE);
	for (page = 0; page < thps * THP_PAGES; page++)
		if (area.live[page] == WHOLE)
			area.live[page] = FIRST_BYTE + turn++ % WHOLE;
	area_fill(&area);
	return area;
}

/* Partially unmaps a huge page. */
void area_drop_page(struct area *area, int page)
{
	expect(!madvise(area_page(area, page), PAGE_SIZE, MADV_DONTNEED),
	       "MADV_DONTNEED: %s", strerror(errno));
	area->live[page] = GONE;
}

void area_verify_page(const struct area *area, int number)
{
	uintptr_t place = area->origin + number * PAGE_SIZE;
	const char *page = area_page(area, number);
	enum live live = area->live[number];
	unsigned long words[PAGE_SIZE / sizeof(long)] = { 0 };
	char *want = (char *)words;
	size_t i;

	if (live == WHOLE)
		for (i = 0; i < PAGE_SIZE; i += 8)
			words[i / 8] = pattern(place + i);
	else if (live != ZERO && live != GONE)
		want[live_byte(live)] = (char)pattern(place);
	if (!memcmp(page, want, PAGE_SIZE))
		return;
	for (i = 0; page[i] == want[i]; i++)
		;
	fail("page %d: byte %zu is %#x, not %#x", number, i,
	     (unsigned char)page[i], (unsigned char)want[i]);
}

/* Reads every byte. */
void area_verify(const struct area *area)
{
	int i;

	for (i = 0; i < area->thps * THP_PAGES; i++)
		area_verify_page(area, i);
}

int area_zero_pages(const struct area *area)
{
	int i, zeros = 0;

	for (i = 0; i < area->thps * THP_PAGES; i++)
		zeros += area->live[i] == ZERO;
	return zeros;
}

int area_live_pages(const struct area *area)
{
	int i, live = 0;

	for (i = 0; i < area->thps * THP_PAGES; i++)
		live += area->live[i] != ZERO && area->live[i] != GONE;
	return live;
}

struct pin pin_page(char *page)
{
	struct iovec part = { page, PAGE_SIZE };
	struct pin pin;

	expect(!pipe(pin.fds), "pipe: %s", strerror(errno));
	expect(vmsplice(pin.fds[1], &part, 1, 0) == (ssize_t)PAGE_SIZE,
	       "vmsplice: %s", strerror(errno));
	return pin;
}

void unpin(struct pin pin)
{
	close(pin.fds[0]);
	close(pin.fds[1]);
}

int uffd_open(const struct area *area, unsigned long features,
	      unsigned long mode)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	struct uffdio_register range = {
		.range = { (uintptr_t)area->base, area_size(area) },
		.mode = mode,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		skip("no userfaultfd (CONFIG_USERFAULTFD): %s",
		     strerror(errno));
	if (ioctl(fd, UFFDIO_REGISTER, &range))
		skip("no userfaultfd mode %#lx: %s", mode,
		     strerror(errno));
	return fd;
}

/* --- what is mapped --- */

/* The sum of an smaps field over the mappings inside the range. */
long smaps_kb(const char *field, const void *start, size_t length)
{
	unsigned long low = (unsigned long)start, high = low + length, from, to;
	FILE *file = fopen("/proc/self/smaps", "re");
	size_t name = strlen(field);
	bool inside = false;
	char line[512];
	long total = 0;

	expect(file, "/proc/self/smaps: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
			inside = from >= low && to <= high;
		else if (inside && !strncmp(line, field, name) &&
			 line[name] == ':')
			total += strtol(line + name + 1, NULL, 10);
	}
	fclose(file);
	return total;
}

/* Huge pages that are mapped as such. */
long area_huge(const struct area *area)
{
	return smaps_kb("AnonHugePages", area->base, area_size(area)) /
	       (long)(THP_SIZE / KB);
}

long area_rss_pages(const struct area *area)
{
	return smaps_kb("Rss", area->base, area_size(area)) /
	       (long)(PAGE_SIZE / KB);
}

#define PM_PFN_BITS	55
#define PM_SWAP_TYPE_BITS	5

/* Bits of /proc/kpageflags. */
enum { KPF_COMPOUND_HEAD = 15, KPF_COMPOUND_TAIL = 16, KPF_ZERO_PAGE = 24 };

static unsigned long read_entry(const char *path, unsigned long index)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	unsigned long entry;

	expect(fd >= 0, "%s: %s", path, strerror(errno));
	expect(pread(fd, &entry, sizeof(entry), index * sizeof(entry)) ==
	       sizeof(entry), "%s cannot be read at entry %lu", path, index);
	close(fd);
	return entry;
}

static unsigned long pagemap_entry(const void *address)
{
	return read_entry("/proc/self/pagemap",
			  (uintptr_t)address / PAGE_SIZE);
}

bool page_has(const void *address, int bit)
{
	return pagemap_entry(address) >> bit & 1;
}

/* The page frame, or 0 where nothing is mapped. */
unsigned long pfn_of(const void *address)
{
	unsigned long entry = pagemap_entry(address);

	if (!(entry >> PM_PRESENT))
		return 0;
	return entry & ((1UL << PM_PFN_BITS) - 1);
}

/* Where the page is on its swap device, in pages, or -1 if it is not in swap. */
long swap_slot_of(const void *address)
{
	unsigned long entry = pagemap_entry(address);

	if (!(entry >> PM_SWAP & 1))
		return -1;
	return (entry & ((1UL << PM_PFN_BITS) - 1)) >> PM_SWAP_TYPE_BITS;
}

static bool frame_has(const void *address, int bit)
{
	unsigned long pfn = pfn_of(address);

	return pfn && read_entry("/proc/kpageflags", pfn) >> bit & 1;
}

bool is_zeropage(const void *address)
{
	return frame_has(address, KPF_ZERO_PAGE);
}

/* Still part of a huge page, however that is mapped. */
bool is_compound(const void *address)
{
	return frame_has(address, KPF_COMPOUND_HEAD) ||
	       frame_has(address, KPF_COMPOUND_TAIL);
}

/* All are split. The zero pages, and only they, are the shared zeropage. */
void area_expect_remapped(const struct area *area)
{
	int i;

	expect(!area_huge(area), "%ld huge pages are not split",
	       area_huge(area));
	for (i = 0; i < area->thps * THP_PAGES; i++) {
		const char *page = area_page(area, i);

		if (area->live[i] == GONE)
			continue;
		expect(!is_compound(page), "page %d: not split", i);
		expect(is_zeropage(page) == (area->live[i] == ZERO),
		       "page %d: %s", i, area->live[i] == ZERO ?
		       "zero but not on the shared zeropage" :
		       "live but on the shared zeropage");
	}
}

/* Every page is private memory, split or not. */
void area_expect_kept(const struct area *area)
{
	int i;

	for (i = 0; i < area->thps * THP_PAGES; i++) {
		const char *page = area_page(area, i);

		if (area->live[i] == GONE)
			continue;
		expect(pfn_of(page), "page %d: not mapped", i);
		expect(!is_zeropage(page), "page %d: on the shared zeropage",
		       i);
	}
}

/* Split, all zero pages given back, all live content intact. */
void expect_split(const struct area *area)
{
	area_expect_remapped(area);
	area_verify(area);
}

void expect_whole(const struct area *area, const char *what)
{
	expect(area_huge(area) == area->thps, "%s: %ld of %d huge pages left",
	       what, area_huge(area), area->thps);
	area_verify(area);
}

/* The number of huge pages that are not split, however they are mapped. */
int area_whole(const struct area *area)
{
	int thp, found = 0;

	for (thp = 0; thp < area->thps; thp++)
		found += is_compound(area_thp(area, thp));
	return found;
}

void area_make_partial(struct area *area)
{
	int thp;

	for (thp = 0; thp < area->thps; thp++)
		area_drop_page(area, thp * THP_PAGES + 100);
	expect(!area_huge(area), "still mapped as huge pages");
	expect(area_whole(area) == area->thps, "split already");
}

/* --- NUMA nodes --- */

/* The page is mapped. */
int node_of(void *page)
{
	int status = -1;

	expect(!syscall(SYS_move_pages, 0, 1L, &page, NULL, &status, 0) &&
	       status >= 0, "move_pages: %s",
	       strerror(status < 0 ? -status : errno));
	return status;
}

/* A node other than that of the page. Skips the test if there is none. */
int other_node(void *page)
{
	int node, own = node_of(page);

	for (node = 0; node < 16; node++) {
		char path[64];

		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d",
			 node);
		if (node != own && !access(path, F_OK))
			return node;
	}
	skip("only one NUMA node (boot with numa=fake=2)");
}

/* Where memory comes from as long as there is some, where the kernel can do that. */
void prefer_node(int node)
{
	unsigned long nodes = 1UL << node;

	syscall(SYS_set_mempolicy, MPOL_PREFERRED, &nodes, 8 * sizeof(nodes));
}

/* Where all memory comes from, if there is such a node. */
void bind_to_node(int node)
{
	unsigned long nodes = 1UL << node;

	syscall(SYS_set_mempolicy, MPOL_BIND, &nodes, 8 * sizeof(nodes));
}

void use_any_node(void)
{
	syscall(SYS_set_mempolicy, MPOL_DEFAULT, NULL, 0);
}

/* Maps the huge pages by PTEs without splitting them. */
void area_map_by_ptes(struct area *area)
{
	int thp;

	for (thp = 0; thp < area->thps; thp++) {
		char *page = area_page(area, thp * THP_PAGES + 100);

		expect(!mprotect(page, PAGE_SIZE, PROT_READ) &&
		       !mprotect(page, PAGE_SIZE, PROT_READ | PROT_WRITE),
		       "mprotect: %s", strerror(errno));
	}
	expect(!area_huge(area), "still mapped as huge pages");
	expect(area_whole(area) == area->thps, "split already");
}

void area_migrate(struct area *area)
{
	int thp;

	for (thp = 0; thp < area->thps; thp++) {
		void *page = area_thp(area, thp);
		int node = other_node(page), status = -1;
		unsigned long pfn = pfn_of(page);

		syscall(SYS_move_pages, 0, 1L, &page, &node, &status,
			MPOL_MF_MOVE_ALL);
		expect(status == node && pfn_of(page) != pfn,
		       "huge page %d was not migrated: %s", thp,
		       strerror(-status));
	}
}

void area_pageout(const struct area *area)
{
	expect(!madvise(area->base, area_size(area), MADV_PAGEOUT),
	       "MADV_PAGEOUT: %s", strerror(errno));
}

#define WRITTEN_SECONDS	10.0

/*
 * All of it is in swap, each huge page in one piece, and none in the swap cache
 * any more. The test's cgroup has nothing else to swap out.
 */
void area_swap_out(const struct area *area)
{
	double end = now() + WRITTEN_SECONDS;
	long before = counter("thp_swpout");
	long kb = area_size(area) / KB;

	area_pageout(area);
	expect(counter("thp_swpout") == before + area->thps,
	       "%ld of %d huge pages were swapped out in one piece",
	       counter("thp_swpout") - before, area->thps);
	expect(smaps_kb("Swap", area->base, area_size(area)) == kb,
	       "%ld of %ld kB are in swap",
	       smaps_kb("Swap", area->base, area_size(area)), kb);
	/* What is being written stays in the swap cache, until it is reclaimed. */
	while (cgroup_event("memory.stat", "swapcached") >= (long)THP_SIZE) {
		expect(now() < end, "the swap cache does not become empty");
		cgroup_write("memory.reclaim", "4M");
		usleep(10000);
	}
}
