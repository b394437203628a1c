// SPDX-License-Identifier: GPL-2.0
/*
 * How fast can zeros be told from other content, on this machine and not in an
 * emulated one? zero_check.py builds and runs this, and knows the rest.
 *
 *	rate CHECK KIB GB/s
 *
 * CHECK	patch: the function that the kernel's shrinker calls
 *		memchr_inv: the kernel's own function for such questions
 *		sum: adding up all words, which is what reading costs
 *		copy: memcpy() of each page to one that stays in the cache
 * KIB		of memory that is gone through again and again, page by page; 4 fit
 *		into the first cache, 2048 into the last, 262144 into none
 *
 * All rates are measured once a round, so that what else goes on in the machine
 * slows down all of them.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE_SIZE	4096UL
#define THP_SIZE	(2UL << 20)
#define MOST_KIB	(256UL << 10)
#define ROUNDS		5
#define SECONDS		0.1
#define PAGES_AT_ONCE	1024	/* between two looks at the clock */

bool patch_says_zero(const void *page);
bool memchr_inv_says_zero(const void *page);

static bool sum_says_zero(const void *page)
{
	const uint64_t *words = page;
	uint64_t sum = 0;
	size_t i;

	for (i = 0; i < PAGE_SIZE / sizeof(*words); i++)
		sum += words[i];
	return !sum;
}

static char target[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));

static bool copy_says_zero(const void *page)
{
	memcpy(target, page, PAGE_SIZE);
	__asm__ volatile("" : : "r" (target) : "memory");
	return !target[0];
}

static const struct check {
	const char *name;
	bool (*zero)(const void *page);
	bool exact;		/* a single byte makes a difference */
} checks[] = {
	{ "patch", patch_says_zero, true },
	{ "memchr_inv", memchr_inv_says_zero, true },
	{ "sum", sum_says_zero, true },
	{ "copy", copy_says_zero, false },
};

static const size_t sizes[] = { 4, 2 << 10, MOST_KIB };

#define ARRAY_SIZE(x)	(sizeof(x) / sizeof((x)[0]))

/* Processor time: nobody knows who else is on the machine. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void wrong(const struct check *check, const char *what)
{
	fprintf(stderr, "%s is wrong about %s\n", check->name, what);
	exit(1);
}

/* What is fast and wrong is of no use. */
static void try(const struct check *check, char *page)
{
	size_t i;

	if (!check->zero(page))
		wrong(check, "a page of zeros");
	for (i = 0; check->exact && i < PAGE_SIZE; i++) {
		page[i] = 1;
		if (check->zero(page))
			wrong(check, "a page with one byte that is not zero");
		page[i] = 0;
	}
}

static double rate(const struct check *check, const char *memory, size_t size)
{
	double began = now(), seconds;
	size_t at = 0, pages = 0;
	int i;

	do {
		for (i = 0; i < PAGES_AT_ONCE; i++) {
			if (!check->zero(memory + at))
				wrong(check, "a page of zeros");
			at = at + PAGE_SIZE < size ? at + PAGE_SIZE : 0;
		}
		pages += PAGES_AT_ONCE;
		seconds = now() - began;
	} while (seconds < SECONDS || pages * PAGE_SIZE < size);
	return pages * PAGE_SIZE / seconds / 1e9;
}

/* In huge pages, as the kernel's own mapping of all memory is. */
static char *map(size_t size)
{
	char *memory = aligned_alloc(THP_SIZE, size);

	if (!memory) {
		fprintf(stderr, "no memory: %zu MiB are needed\n", size >> 20);
		exit(1);
	}
	madvise(memory, size, MADV_HUGEPAGE);
	return memset(memory, 0, size);
}

int main(void)
{
	char *memory = map(MOST_KIB << 10);
	size_t round, size, i;

	for (i = 0; i < ARRAY_SIZE(checks); i++)
		try(&checks[i], memory);
	for (round = 0; round < ROUNDS; round++)
		for (size = 0; size < ARRAY_SIZE(sizes); size++)
			for (i = 0; i < ARRAY_SIZE(checks); i++)
				printf("rate %s %zu %.3f\n", checks[i].name,
				       sizes[size],
				       rate(&checks[i], memory,
					    sizes[size] << 10));
	return 0;
}
