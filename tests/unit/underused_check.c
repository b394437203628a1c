// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the kernel's check for underused huge pages in user space, on patterns of
 * pages that are read from standard input. test_underused_check.py puts the
 * functions of mm/huge_memory.c in place of check.h.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_SIZE		4096UL
#define HPAGE_PMD_NR		512
#define BITS_PER_LONG		64
#define ZERO_PAGE(address)	NULL
#define THP_UNDERUSED_SCAN_PAGE	0

struct page {
	unsigned long words[PAGE_SIZE / sizeof(long)];
};

struct folio {
	struct page pages[HPAGE_PMD_NR];
};

static unsigned int max_zero_subpages;
static bool keeps_pmds;

static unsigned int thp_max_zero_subpages(void)
{
	return max_zero_subpages;
}

static bool thp_keeps_pmds(struct folio *folio, int extra_refs)
{
	(void)folio;
	(void)extra_refs;
	return keeps_pmds;
}

static struct page *folio_page(struct folio *folio, unsigned int number)
{
	return &folio->pages[number];
}

static void *kmap_local_page(struct page *page)
{
	return page->words;
}

static void bitmap_zero(unsigned long *bits, unsigned int nr)
{
	memset(bits, 0, nr / 8);
}

static void __set_bit(unsigned int bit, unsigned long *bits)
{
	bits[bit / BITS_PER_LONG] |= 1UL << bit % BITS_PER_LONG;
}

#define kunmap_local(address)			((void)(address))
#define PageHWPoison(page)			((void)(page), false)
#define pages_identical(page, other)		(abort(), false)
#define count_vm_event(item)			((void)(item))
#define count_memcg_folio_events(folio, item, nr) ((void)(folio))
#define cond_resched()				((void)0)
#define smp_rmb()				((void)0)

static bool page_only_bytes(struct page *page)
{
	(void)page;
	return true;
}

#include "check.h"

/*
 * Each line is a pattern: the threshold, whether PMDs can be kept, and for each
 * page the number of the word that is not zero, or -1. Answers with the verdict
 * of the first look, that of the second, and the bits of the zero-filled subpages.
 */
int main(void)
{
	static struct folio folio;
	unsigned long zero[HPAGE_PMD_NR / BITS_PER_LONG];
	int keeps, word;
	unsigned int i;

	while (scanf("%u %d", &max_zero_subpages, &keeps) == 2) {
		memset(&folio, 0, sizeof(folio));
		keeps_pmds = keeps;
		for (i = 0; i < HPAGE_PMD_NR; i++) {
			if (scanf("%d", &word) != 1)
				return 1;
			if (word >= 0)
				folio.pages[i].words[word] = 1UL << i % 64;
		}
		printf("%d %d", thp_looks_underused(&folio),
		       find_zero_subpages(&folio, zero, max_zero_subpages + 1));
		find_zero_subpages(&folio, zero, 0);
		for (i = 0; i < HPAGE_PMD_NR / BITS_PER_LONG; i++)
			printf(" %lx", zero[i]);
		printf("\n");
	}
	return 0;
}
