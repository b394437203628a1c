// SPDX-License-Identifier: GPL-2.0
/*
 * What the kernel asks of a page of a huge page, in user space: the functions are
 * taken from the kernel's source by zero_check.py, and compiled as the kernel
 * compiles them. Here is what they find around them there.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_64BIT				1
#define CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS	1
#define CONFIG_ARCH_HAS_FAST_MULTIPLIER		1
#define BITS_PER_LONG				64
#define PAGE_SHIFT				12
#define PAGE_SIZE				(1UL << PAGE_SHIFT)

#define __always_inline		inline __attribute__((always_inline))
#define __visible
#define __weak
#define noinline		__attribute__((noinline))
#define likely(x)		__builtin_expect(!!(x), 1)
#define unlikely(x)		__builtin_expect(!!(x), 0)
#define READ_ONCE(x)		(*(const volatile typeof(x) *)&(x))
#define BUILD_BUG_ON(x)		_Static_assert(!(x), #x)
#define get_unaligned(p)	(*(p))

typedef uint8_t u8;
typedef uint32_t u32;
typedef uint64_t u64;

/* All memory is mapped: a page is where its content is. */
struct page;

#define kmap_local_page(page)	((void *)(page))
#define kmap_atomic(page)	((void *)(page))
#define page_address(page)	((void *)(page))
#define kunmap_local(addr)	((void)(addr))
#define kunmap_atomic(addr)	((void)(addr))
#define ZERO_PAGE(addr)		((struct page *)zeros)
/* The extraction knows no #ifdef, so it takes what arm64 has of memory tags. */
#define page_mte_tagged(page)	false

static const char zeros[PAGE_SIZE] __attribute__((aligned(PAGE_SIZE)));

#include "zero_check_extracted.h"

bool patch_says_zero(const void *page)
{
	return page_zero_filled((struct page *)page);
}

bool memchr_inv_says_zero(const void *page)
{
	return !memchr_inv(page, 0, PAGE_SIZE);
}
