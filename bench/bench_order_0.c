// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of getting small pages and of giving them back, with enough free memory.
 *
 * anonymous	pages that can be moved, by a fault each
 * files	the same, by writing to a file in memory
 * pipes	pages that cannot be moved, by writing to pipes
 *
 * Figures, in processor time for a page: allocate, free.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS		8
#define PIPE_SIZE	(64 * KB)
#define MOST_PIPES	480	/* of 1,024 open files */

static size_t size;
static char buffer[PIPE_SIZE];

struct kind {
	void (*begin)(void);
	void (*allocate)(void);
	void (*free)(void);
};

/* --- anonymous memory --- */

static char *memory;

static void anonymous_begin(void)
{
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	madvise(memory, size, MADV_NOHUGEPAGE);
}

static void anonymous_allocate(void)
{
	size_t i;

	for (i = 0; i < size; i += PAGE_SIZE)
		touch(memory + i);
}

static void anonymous_free(void)
{
	expect(!madvise(memory, size, MADV_DONTNEED), "MADV_DONTNEED: %s",
	       strerror(errno));
}

/* --- a file in memory --- */

static int file;

static void file_begin(void)
{
	file = memfd_create("bench", MFD_CLOEXEC);
	expect(file >= 0, "memfd_create: %s", strerror(errno));
}

static void file_allocate(void)
{
	size_t i;

	for (i = 0; i < size; i += sizeof(buffer))
		expect(pwrite(file, buffer, sizeof(buffer), i) ==
		       (ssize_t)sizeof(buffer), "pwrite: %s", strerror(errno));
}

static void file_free(void)
{
	expect(!ftruncate(file, 0), "ftruncate: %s", strerror(errno));
}

/* --- pipes --- */

static int pipes[MOST_PIPES][2], count;

static void pipes_begin(void)
{
	for (count = 0; count < MOST_PIPES && count * PIPE_SIZE < size; count++)
		expect(!pipe2(pipes[count], O_NONBLOCK | O_CLOEXEC),
		       "pipe2: %s", strerror(errno));
	size = count * PIPE_SIZE;
}

static void pipes_allocate(void)
{
	int i;

	for (i = 0; i < count; i++)
		expect(write(pipes[i][1], buffer, sizeof(buffer)) ==
		       (ssize_t)sizeof(buffer), "write: %s", strerror(errno));
}

static void pipes_free(void)
{
	int i;

	for (i = 0; i < count; i++)
		expect(read(pipes[i][0], buffer, sizeof(buffer)) ==
		       (ssize_t)sizeof(buffer), "read: %s", strerror(errno));
}

/* --- the tests --- */

static const struct kind kinds[] = {
	{ anonymous_begin, anonymous_allocate, anonymous_free },
	{ file_begin, file_allocate, file_free },
	{ pipes_begin, pipes_allocate, pipes_free },
};

static double timed(void (*work)(void))
{
	double began = own_cpu_time();

	work();
	return own_cpu_time() - began;
}

static void measure(long number)
{
	const struct kind *kind = &kinds[number];
	double allocate = 0, free = 0, pages;
	int round;

	size = bench_thps() * THP_SIZE;
	kind->begin();
	/* Warm up. */
	kind->allocate();
	kind->free();
	sample(true);
	for (round = 0; round < ROUNDS; round++) {
		allocate += timed(kind->allocate);
		free += timed(kind->free);
	}
	sample(false);
	pages = (double)ROUNDS * size / PAGE_SIZE;
	figure("allocate", allocate / pages * 1e9, "ns");
	figure("free", free / pages * 1e9, "ns");
}

static const struct test tests[] = {
	TEST_WITH("anonymous", measure, 0),
	TEST_WITH("files", measure, 1),
	TEST_WITH("pipes", measure, 2),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
