/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Swap on the device mapper, for a test with .disk, .before = mapper_on and
 * .after = mapper_off.
 */
#ifndef THP_MAPPER_H
#define THP_MAPPER_H

void mapper_on(void);
void mapper_off(void);
void need_mapper(void);

/* From hold to release, requests wait, and nothing is read or written. */
void mapper_hold(void);
void mapper_release(void);

/* For those that use what is next, as hosts may want no errors in their log. */
void need_read_errors(void);

/* From now on, requests for this page fail; those in one request with it, too. */
void mapper_fail_page(long slot);

/* Returns 0 or -errno. */
int mapper_swapoff(void);

#endif
