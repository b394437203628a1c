/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the benchmark programs (bench_*.c) share, on top of thp_util.h.
 *
 * A verdict tells whether the measurement is valid. Each figure has a line of its
 * own:
 *
 *	# TEST: NAME VALUE UNIT
 *
 * Units: s is elapsed time, ns is processor time; bytes, pages (of 4 KiB), thps,
 * count, and share, a ratio. Timed work has two figures: WHAT_time in s, and WHAT_cpu in ns, the
 * processor time of all processes and kernel threads of the machine.
 *
 * The first run of anything in a boot takes longer: the kernel allocates memory of
 * its own, and an emulator translates code. Where time counts, a test therefore
 * does all its work once with a single huge page before it measures. Its figures
 * then do not depend on the tests before it.
 *
 * Environment (the kernel passes on unknown words of its command line):
 *
 * BENCH_MIB	memory that a test works on, in MiB; default 64. Swap has 256.
 * BENCH_ROUNDS	rounds of bench_fragment; default 3
 * BENCH_SECONDS	least time of such a round, in s; default 20
 * BENCH_DEFRAG_MODE	vm.defrag_mode that bench_fragment expects; default 0
 * BENCH_SWAPIN	what bench_swapin writes to swapin_enabled; default nothing
 * BENCH_DISK	block device for the tests that swap to a disk, which overwrite it;
 *		default none
 */
#ifndef BENCH_H
#define BENCH_H

#include "thp_util.h"

long setting(const char *name, long otherwise);
int bench_thps(void);

/* --- figures --- */

void figure(const char *name, double value, const char *unit);

/* The cost of a piece of work, in seconds. */
struct spent {
	double time;
	double cpu;		/* processor time of the whole machine */
};

struct spent clock_start(void);
struct spent clock_stop(struct spent started);
void figure_spent(const char *name, struct spent spent);
double own_cpu_time(void);

/* The rise of a counter of /proc/vmstat. */
struct rise {
	const char *name, *counter, *unit;
	long before;
};

#define RISE(name_, counter_, unit_)					\
	{ .name = name_, .counter = counter_, .unit = unit_ }

void rises_begin(struct rise *rises, size_t count);
void rises_print(const struct rise *rises, size_t count);

/* bench_symbols samples what happens between on and off. */
#define SAMPLERS	"BENCH_SAMPLERS"

void sample(bool on);

/* --- memory --- */

/* Offset of the one byte of a page that is not zero. */
#define FIRST		0
#define LAST		((long)PAGE_SIZE - 1)
#define ANYWHERE	(-1L)

struct area area_scatter(int thps, int live_pages, long offset);

/* --- the shrinker: its threshold, and a pass over the test's whole queue --- */

void need_shrinker(void);
struct spent scan(void);

/* --- swap --- */

void ram_swap_on(void);
void disk_swap_on(void);
void disk_swap_off(void);
void need_any_swap(void);
long swap_stored(void);
void wait_written(void);
void page_out(const struct area *area);

/* A test with swap on brd. */
#define TEST_RAM(name_, run_, arg_)					\
	TEST_WITH(name_ ".ram", run_, arg_, .before = ram_swap_on,	\
		  .after = disk_swap_off)

/* The same test with swap on zram and on a disk. */
#define TEST_SWAP(name_, run_, arg_)					\
	TEST_WITH(name_ ".zram", run_, arg_, .swap = true),		\
	TEST_WITH(name_ ".disk", run_, arg_, .before = disk_swap_on,	\
		  .after = disk_swap_off)

/* --- fragment.c: rounds of work that fragments memory --- */

#define WORKER_STEPS	1000

void fragment_mount(void);
void fragment_unmount(void);
void fragment_begin(void);
void fragment_start_round(void);
void fragment_wait(int part, int parts);
void fragment_end_round(void);

#endif
