// SPDX-License-Identifier: GPL-2.0
void *memchr_inv(const void *start, int c, size_t bytes)
{
	const u8 *p = start;

	while (bytes && *p == c) {
		p++;
		bytes--;
	}
	return bytes ? (void *)p : NULL;
}
