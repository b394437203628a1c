// SPDX-License-Identifier: GPL-2.0
/*
 * bench_symbols PROGRAM [TEST...]
 *
 * Runs a benchmark program, and prints in which functions of the kernel the
 * processors were during the measurement, most frequent first:
 *
 *	# symbol NAME SAMPLES
 *
 * A timer interrupt takes the samples. Work with interrupts disabled counts for the
 * function that enables them again.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* In ns. With a shorter period the kernel drops samples. */
#define PERIOD		20000
#define RING_SIZE	(8 * MB)
#define SHOWN		25
#define MOST_CPUS	64

struct symbol {
	unsigned long address;
	long samples;
	char name[64];
};

static struct symbol *symbols;
static size_t symbol_count;

static struct perf_event_mmap_page *rings[MOST_CPUS];
static int ring_count;
static long total, lost;

noreturn static void die(const char *what)
{
	fprintf(stderr, "bench_symbols: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* The file lists functions in the order of their addresses. */
static void read_symbols(void)
{
	FILE *file = fopen("/proc/kallsyms", "re");
	struct symbol symbol = { 0 };
	size_t room = 0;
	char type;

	if (!file)
		die("/proc/kallsyms");
	while (fscanf(file, "%lx %c %63s%*[^\n]", &symbol.address, &type,
		      symbol.name) == 3) {
		if (!strchr("tTwW", type))
			continue;
		if (symbol_count == room) {
			room = room ? 2 * room : 1 << 16;
			symbols = realloc(symbols, room * sizeof(*symbols));
			if (!symbols)
				die("no memory");
		}
		symbols[symbol_count++] = symbol;
	}
	fclose(file);
}

static void count_address(unsigned long address)
{
	size_t low = 0, high = symbol_count;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	total++;
	if (low)
		symbols[low - 1].samples++;
}

/* One event for each processor; the program inherits the file descriptors. */
static void open_samplers(void)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PERIOD,
		.sample_type = PERF_SAMPLE_IP,
		.disabled = 1,
		.exclude_user = 1,
		.exclude_idle = 1,
	};
	char fds[512] = "";
	int fd, cpus = sysconf(_SC_NPROCESSORS_ONLN);

	for (; ring_count < cpus && ring_count < MOST_CPUS; ring_count++) {
		fd = syscall(SYS_perf_event_open, &attr, -1, ring_count, -1, 0);
		if (fd < 0)
			die("perf_event_open (CONFIG_PERF_EVENTS)");
		rings[ring_count] = mmap(NULL, PAGE_SIZE + RING_SIZE,
					 PROT_READ | PROT_WRITE, MAP_SHARED,
					 fd, 0);
		if (rings[ring_count] == MAP_FAILED)
			die("no memory for samples");
		sprintf(fds + strlen(fds), "%d,", fd);
	}
	setenv(SAMPLERS, fds, 1);
}

struct record {
	struct perf_event_header header;
	union {
		uint64_t address;
		struct {
			uint64_t id, count;
		} lost;
	};
};

/* Records are multiples of 8 bytes: at most the last one is cut. */
static void read_ring(const struct perf_event_mmap_page *ring)
{
	const char *data = (const char *)ring + PAGE_SIZE;
	uint64_t at = 0, head = __atomic_load_n(&ring->data_head,
						__ATOMIC_ACQUIRE);
	struct record record;

	/* A full ring drops new records and counts them as lost. */
	while (at < head) {
		memcpy(&record, data + at, sizeof(record.header));
		memcpy(&record, data + at,
		       record.header.size < sizeof(record) ?
		       record.header.size : sizeof(record));
		if (record.header.type == PERF_RECORD_SAMPLE)
			count_address(record.address);
		else if (record.header.type == PERF_RECORD_LOST)
			lost += record.lost.count;
		at += record.header.size;
	}
}

static int more_samples(const void *a, const void *b)
{
	const struct symbol *left = a, *right = b;

	return (right->samples > left->samples) -
	       (right->samples < left->samples);
}

static void report(void)
{
	int i;

	for (i = 0; i < ring_count; i++)
		read_ring(rings[i]);
	qsort(symbols, symbol_count, sizeof(*symbols), more_samples);
	for (i = 0; i < SHOWN && (size_t)i < symbol_count; i++)
		if (symbols[i].samples)
			note("symbol %s %ld", symbols[i].name,
			     symbols[i].samples);
	note("symbols: %ld samples, %ld lost", total, lost);
}

/* A program without a path is in the same directory as this one. */
static void run(char **argv)
{
	char folder[256] = "", path[512];

	if (readlink("/proc/self/exe", folder, sizeof(folder) - 1) < 0)
		die("/proc/self/exe");
	*strrchr(folder, '/') = '\0';
	snprintf(path, sizeof(path), "%s/%s", folder, argv[0]);
	execv(strchr(argv[0], '/') ? argv[0] : path, argv);
	die(argv[0]);
}

int main(int argc, char **argv)
{
	int status;
	pid_t pid;

	if (argc < 2) {
		fprintf(stderr, "usage: bench_symbols PROGRAM [TEST...]\n");
		return 2;
	}
	if (!strcmp(argv[1], "--list"))
		return 0;
	read_symbols();
	open_samplers();
	pid = fork();
	if (pid < 0)
		die("fork");
	if (!pid)
		run(argv + 1);
	if (waitpid(pid, &status, 0) != pid)
		die("waitpid");
	report();
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
