/* SPDX-License-Identifier: GPL-2.0 */
extern bool page_zero_filled(struct page *page);
