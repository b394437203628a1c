// SPDX-License-Identifier: GPL-2.0
/*
 * Rounds of work that fragments memory (fragment.c), with huge page faults in
 * between: how many faults get a huge page, what the kernel does for that, and how
 * fragmented memory is in the end.
 *
 * fragment_madvise	faults with MADV_HUGEPAGE
 * fragment_always	faults without it, with enabled=always and defrag=madvise: the
 *			kernel does nothing for them
 * fragment_defer	the same with defrag=defer+madvise: kswapd and kcompactd are
 *			woken for them
 *
 * Figures, beside counters of /proc/vmstat under their own names: fault_time; work
 * (processor time of all rounds, the kernel's threads included) and own (without
 * kswapd and kcompactd: what programs lose); round_N (thps in round N), first and
 * last (thps in the first and last half of the rounds) and slope (share: last over
 * first); wanted (thps in all rounds) and failed (share of these
 * that got small pages); polluted (count: a block of 2 MiB that was in use got pages
 * of another migrate type), stolen (those of them by which the block changed its
 * type), and untraced (count: such events that the trace had no room for); blocks_*
 * (count): free, mixed (movable and unmovable pages; those of zram look unmovable),
 * hostage (a tenth or less of unmovable pages), fixed (any unmovable page);
 * pages_fixed; after dropping all caches, probe out of possible (thps), and probed,
 * their share; quiet (pages that kswapd and kcompactd looked at in the QUIET_SECONDS
 * after that, with nobody else at work).
 *
 * The migrate types of blocks outlive a test: each test needs a boot of its own.
 */
#include <errno.h>
#include <glob.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define DEFAULT_ROUNDS	3
#define BURSTS		10	/* of faults, spread over a round */
#define HOLD_US		100000
#define QUIET_SECONDS	5
#define SECONDS		3600

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

/* Not all zeros, or the shrinker of kernel-thp would take it back at once. */
static void use_thp(char *thp)
{
	__atomic_store_n(thp, 1, __ATOMIC_RELAXED);
}

static void fault_burst(void)
{
	char *memory = map_thps(bench_thps());
	int thp;

	sample(true);
	fault_time -= now();
	for (thp = 0; thp < bench_thps(); thp++)
		use_thp(first_thp(memory) + thp * THP_SIZE);
	fault_time += now();
	sample(false);
	usleep(HOLD_US);
	munmap(memory, (bench_thps() + 1) * THP_SIZE);
}

static void go_round(void)
{
	int burst;

	fragment_start_round();
	for (burst = 0; burst < BURSTS; burst++) {
		fragment_wait(burst, BURSTS);
		fault_burst();
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

/*
 * Free pages on the lists of CPUs look like the kernel's own, and there are
 * thousands on each list. A list that is told to be short, shrinks when pages are
 * freed.
 */
static void shorten_cpu_lists(void)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), cpu;
	size_t size = 16 * MB;
	cpu_set_t set;
	int error = file_write("/proc/sys/vm/percpu_pagelist_high_fraction",
			       "1000000");

	expect(!error, "the lists of CPUs stay as they are: %s",
	       strerror(-error));
	for (cpu = 0; cpu < cpus; cpu++) {
		char *memory;

		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
		expect(!sched_setaffinity(0, sizeof(set), &set),
		       "CPU %d: %s", cpu, strerror(errno));
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		expect(memory != MAP_FAILED, "mmap: %s", strerror(errno));
		madvise(memory, size, MADV_NOHUGEPAGE);
		memset(memory, 1, size);
		munmap(memory, size);
	}
}

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

/* How many huge pages can be made of free memory, by compaction too? */
static void probe(void)
{
	long possible, before, made, thp;
	char *memory;

	file_write("/proc/sys/vm/drop_caches", "3");
	possible = sysconf(_SC_AVPHYS_PAGES) / THP_PAGES;
	memory = map_thps(possible);
	before = counter("thp_fault_alloc");
	for (thp = 0; thp < possible; thp++)
		use_thp(first_thp(memory) + thp * THP_SIZE);
	made = counter("thp_fault_alloc") - before;
	figure("probe", made, "thps");
	figure("possible", possible, "thps");
	figure("probed", (double)made / possible, "share");
	munmap(memory, (possible + 1) * THP_SIZE);
}

/* Seconds that processors were not idle: processes that have ended count, too. */
static double busy(void)
{
	FILE *file = fopen("/proc/stat", "re");
	long user, nice, system, idle, iowait, irq, softirq;

	expect(file && fscanf(file, "cpu %ld %ld %ld %ld %ld %ld %ld", &user,
			      &nice, &system, &idle, &iowait, &irq,
			      &softirq) == 7, "/proc/stat: %s", strerror(errno));
	fclose(file);
	return (double)(user + nice + system + irq + softirq) /
	       sysconf(_SC_CLK_TCK);
}

static long looked_at(void)
{
	return counter("pgscan_kswapd") +
	       counter("compact_daemon_migrate_scanned");
}

/* Seconds that the threads have run whose names begin like this. */
static double ran(const char *begin)
{
	char name[32];
	double total = 0;
	glob_t found;
	size_t i;

	expect(!glob("/proc/[0-9]*/comm", 0, NULL, &found), "no /proc/PID/comm");
	for (i = 0; i < found.gl_pathc; i++) {
		const char *path = found.gl_pathv[i];
		struct timespec t;
		clockid_t clock;

		if (!file_read(path, name, sizeof(name)) &&
		    !strncmp(name, begin, strlen(begin)) &&
		    !clock_getcpuclockid(atoi(path + strlen("/proc/")), &clock) &&
		    !clock_gettime(clock, &t))
			total += t.tv_sec + t.tv_nsec / 1e9;
	}
	globfree(&found);
	return total;
}

static double busy_without_threads(void)
{
	return busy() - ran("kswapd") - ran("kcompactd");
}

/* Nobody needs anything, and all that is free can be had. */
static void be_quiet(void)
{
	long before = looked_at();

	sleep(QUIET_SECONDS);
	figure("quiet", looked_at() - before, "pages");
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
	COUNTER("compact_isolated", "pages"),
	COUNTER("pgmigrate_success", "pages"),
	COUNTER("pgmigrate_fail", "pages"),
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

/* A kernel that ignores what its line says would be measured in the wrong mode. */
static void need_mode(void)
{
	char mode[8] = "";

	file_read("/proc/sys/vm/defrag_mode", mode, sizeof(mode));
	expect(atoi(mode) == setting("BENCH_DEFRAG_MODE", 0),
	       "vm.defrag_mode is \"%s\", not %ld", mode,
	       setting("BENCH_DEFRAG_MODE", 0));
}

enum faults { ADVISED, ALWAYS, DEFERRED };

static void fragment(long faults)
{
	long rounds = setting("BENCH_ROUNDS", DEFAULT_ROUNDS), round;
	long failed = counter("thp_fault_fallback"), wanted;
	/* In the first half of the rounds and in the last, with the middle one in both. */
	long got[2] = { 0, 0 };
	double work, own;
	char name[32];

	need_any_swap();
	need_mode();
	fragment_begin();
	advise = faults == ADVISED;
	if (!advise)
		knob_set("enabled", "always");
	if (faults == DEFERRED)
		knob_set("defrag", "defer+madvise");
	trace_on("kmem/mm_page_alloc_extfrag", false);

	rises_begin(rises, ARRAY_SIZE(rises));
	work = -busy();
	own = -busy_without_threads();
	for (round = 1; round <= rounds; round++) {
		long before = counter("thp_fault_alloc"), thps;

		go_round();
		thps = counter("thp_fault_alloc") - before;
		snprintf(name, sizeof(name), "round_%ld", round);
		figure(name, thps, "thps");
		got[round > (rounds + 1) / 2] += thps;
		if (rounds % 2 && round == (rounds + 1) / 2)
			got[1] += thps;
	}
	figure("own", own + busy_without_threads(), "s");
	figure("work", work + busy(), "s");
	wanted = rounds * BURSTS * bench_thps();
	figure("wanted", wanted, "thps");
	figure("first", got[0], "thps");
	figure("last", got[1], "thps");
	figure("slope", (double)got[1] / got[0], "share");
	figure("failed", (double)(counter("thp_fault_fallback") - failed) / wanted,
	       "share");
	figure("fault_time", fault_time, "s");
	rises_print(rises, ARRAY_SIZE(rises));
	figure("polluted", trace_lines("fragmenting=1", ""), "count");
	figure("stolen", trace_lines("fragmenting=1", "change_ownership=1"),
	       "count");
	figure("untraced", untraced(), "count");
	shorten_cpu_lists();
	figure_blocks();
	probe();
	be_quiet();
}

#define TEST_FRAGMENT(name_, run_, arg_)				\
	TEST_WITH(name_, run_, arg_, .seconds = SECONDS, .swap = true,	\
		  .disk = true, .before = fragment_mount,		\
		  .after = fragment_unmount)

static const struct test tests[] = {
	TEST_FRAGMENT("fragment_madvise", fragment, ADVISED),
	TEST_FRAGMENT("fragment_always", fragment, ALWAYS),
	TEST_FRAGMENT("fragment_defer", fragment, DEFERRED),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
