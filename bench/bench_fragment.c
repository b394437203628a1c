// SPDX-License-Identifier: GPL-2.0
/*
 * Rounds of work that fragments memory (fragment.c), with huge page faults in
 * between: how many faults get a huge page, what the kernel does for that, and how
 * fragmented memory is in the end.
 *
 * fragment_madvise	faults with MADV_HUGEPAGE
 * fragment_always	faults without it, with enabled=always: the kernel must not
 *			compact memory directly for them
 *
 * Figures, beside counters of /proc/vmstat under their own names: fault_time;
 * round_N (thps in round N, out of "wanted" in all rounds); polluted and stolen
 * (count: a block of 2 MiB got pages of another migrate type, or changed its type),
 * and untraced (count: such events that the trace had no room for); blocks_*
 * (count): free, mixed (movable and unmovable pages), hostage (a tenth or less of
 * unmovable pages), fixed (any unmovable page); pages_fixed; and, after dropping all
 * caches, probe out of possible (thps).
 *
 * The migrate types of blocks outlive a test: each test needs a boot of its own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

#define DEFAULT_ROUNDS	3
#define BURSTS		5	/* of faults, after each step of a round */
#define SECONDS		300

static bool advise;
static double fault_time;

/* --- faults of huge pages --- */

static char *map_thps(long thps)
{
	size_t size = (thps + 1) * THP_SIZE;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	if (advise)
		madvise(memory, size, MADV_HUGEPAGE);
	return memory;
}

static char *first_thp(char *memory)
{
	return (char *)(((uintptr_t)memory + THP_SIZE - 1) & ~(THP_SIZE - 1));
}

static void fault_bursts(void)
{
	int burst, thp;

	for (burst = 0; burst < BURSTS; burst++) {
		char *memory = map_thps(bench_thps());

		sample(true);
		fault_time -= now();
		for (thp = 0; thp < bench_thps(); thp++)
			touch(first_thp(memory) + thp * THP_SIZE);
		fault_time += now();
		sample(false);
		munmap(memory, (bench_thps() + 1) * THP_SIZE);
	}
}

static void go_round(void)
{
	int step;

	for (step = 0; step < FRAGMENT_STEPS; step++) {
		fragment_step(step);
		fault_bursts();
	}
	fragment_end_round();
}

/* --- fragmentation --- */

/* Bits of /proc/kpageflags. */
#define KPF(bit)	(1UL << (bit))
#define LRU		KPF(5)
#define BUDDY		KPF(10)
#define ANON		KPF(12)
#define NOPAGE		KPF(20)

static void figure_blocks(void)
{
	long free = 0, mixed = 0, hostage = 0, fixed = 0, pages_fixed = 0;
	FILE *file = fopen("/proc/kpageflags", "re");
	unsigned long flags[THP_PAGES];

	expect(file, "no /proc/kpageflags (CONFIG_PROC_PAGE_MONITOR)");
	while (fread(flags, sizeof(flags), 1, file) == 1) {
		int nr_free = 0, nr_movable = 0, nr_fixed, i;

		for (i = 0; i < THP_PAGES && !(flags[i] & NOPAGE); i++) {
			nr_free += !!(flags[i] & BUDDY);
			nr_movable += !!(flags[i] & (LRU | ANON));
		}
		if (i < THP_PAGES)
			continue;
		nr_fixed = THP_PAGES - nr_free - nr_movable;
		free += nr_free == THP_PAGES;
		fixed += nr_fixed > 0;
		mixed += nr_fixed > 0 && nr_movable;
		hostage += nr_fixed > 0 && nr_fixed <= THP_PAGES / 10;
		pages_fixed += nr_fixed;
	}
	fclose(file);
	figure("blocks_free", free, "count");
	figure("blocks_mixed", mixed, "count");
	figure("blocks_hostage", hostage, "count");
	figure("blocks_fixed", fixed, "count");
	figure("pages_fixed", pages_fixed, "pages");
	if (counter("nr_free_pages_blocks") >= 0)
		figure("nr_free_pages_blocks", counter("nr_free_pages_blocks"),
		       "pages");
}

/* How many huge pages can be allocated from free memory? */
static void probe(void)
{
	long possible, fallback, thp;
	char *memory;

	file_write("/proc/sys/vm/drop_caches", "3");
	possible = sysconf(_SC_AVPHYS_PAGES) / THP_PAGES;
	memory = map_thps(possible);
	fallback = counter("thp_fault_fallback");
	for (thp = 0; thp < possible; thp++) {
		touch(first_thp(memory) + thp * THP_SIZE);
		if (counter("thp_fault_fallback") > fallback)
			break;
	}
	figure("probe", thp, "thps");
	figure("possible", possible, "thps");
	munmap(memory, (possible + 1) * THP_SIZE);
}

/* --- the tests --- */

/* The trace of trace_on(). */
#define TRACE	"/sys/kernel/tracing/instances/kselftest-thp/trace"

/* A full ring overwrites the oldest events; its header has both numbers. */
static long untraced(void)
{
	long kept = 0, written = 0;
	FILE *file = fopen(TRACE, "re");
	char line[256];

	expect(file, "the trace cannot be read: %s", strerror(errno));
	while (fgets(line, sizeof(line), file) && !written)
		sscanf(line, "# entries-in-buffer/entries-written: %ld/%ld",
		       &kept, &written);
	fclose(file);
	return written - kept;
}

#define COUNTER(name, unit)	RISE(name, name, unit)

static struct rise rises[] = {
	COUNTER("thp_fault_alloc", "thps"),
	COUNTER("thp_fault_fallback", "thps"),
	COUNTER("thp_split_page", "thps"),
	COUNTER("compact_stall", "count"),
	COUNTER("compact_success", "count"),
	COUNTER("compact_fail", "count"),
	COUNTER("compact_migrate_scanned", "pages"),
	COUNTER("compact_free_scanned", "pages"),
	COUNTER("compact_daemon_wake", "count"),
	COUNTER("compact_daemon_migrate_scanned", "pages"),
	COUNTER("compact_daemon_free_scanned", "pages"),
	COUNTER("allocstall_dma32", "count"),
	COUNTER("allocstall_normal", "count"),
	COUNTER("allocstall_movable", "count"),
	COUNTER("pgscan_kswapd", "pages"),
	COUNTER("pgscan_direct", "pages"),
	COUNTER("pgsteal_kswapd", "pages"),
	COUNTER("pgsteal_direct", "pages"),
	COUNTER("pageoutrun", "count"),
	COUNTER("pswpin", "pages"),
	COUNTER("pswpout", "pages"),
	COUNTER("workingset_refault_anon", "pages"),
	COUNTER("workingset_refault_file", "pages"),
	COUNTER("oom_kill", "count"),
};

static void fragment(long with_advice)
{
	long rounds = setting("BENCH_ROUNDS", DEFAULT_ROUNDS), round, before;
	char name[32];

	need_any_swap();
	fragment_begin();
	advise = with_advice;
	if (!advise)
		knob_set("enabled", "always");
	trace_on("kmem/mm_page_alloc_extfrag", false);

	rises_begin(rises, ARRAY_SIZE(rises));
	for (round = 1; round <= rounds; round++) {
		before = counter("thp_fault_alloc");
		go_round();
		snprintf(name, sizeof(name), "round_%ld", round);
		figure(name, counter("thp_fault_alloc") - before, "thps");
	}
	figure("wanted", rounds * FRAGMENT_STEPS * BURSTS * bench_thps(), "thps");
	figure("fault_time", fault_time, "s");
	rises_print(rises, ARRAY_SIZE(rises));
	figure("polluted", trace_lines("fragmenting=1", "change_ownership=0"),
	       "count");
	figure("stolen", trace_lines("fragmenting=1", "change_ownership=1"),
	       "count");
	figure("untraced", untraced(), "count");
	figure_blocks();
	probe();
}

#define TEST_FRAGMENT(name_, run_, arg_)				\
	TEST_WITH(name_, run_, arg_, .seconds = SECONDS, .swap = true,	\
		  .disk = true, .before = fragment_mount,		\
		  .after = fragment_unmount)

static const struct test tests[] = {
	TEST_FRAGMENT("fragment_madvise", fragment, true),
	TEST_FRAGMENT("fragment_always", fragment, false),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
