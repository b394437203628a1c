// SPDX-License-Identifier: GPL-2.0
/*
 * What zero_check.py takes its functions from in the tests: the shapes that the
 * kernel's source has. This is none of them:
static bool in_comment(void)
{
}
 */
extern bool words_zero(const void *page, unsigned long size);

#define STEP	8
#define TWICE(x)	\
	((x) + \
	 (x))

static __always_inline bool
words_zero(const void *page,
	   unsigned long size)
{
	if (size % TWICE(STEP)) {
		return false;
	}
	return !memchr_inv(page, 0, size);
}

static bool page_zero_filled(struct page *page)
{
	return words_zero(kmap_local_page(page), PAGE_SIZE);
}

static bool caller(struct page *page)
{
	return page_zero_filled(page);
}
