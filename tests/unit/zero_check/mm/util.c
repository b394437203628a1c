// SPDX-License-Identifier: GPL-2.0
static bool caller(struct page *page)
{
	return !page_zero_filled(page);
}
