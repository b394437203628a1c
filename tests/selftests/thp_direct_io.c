// SPDX-License-Identifier: GPL-2.0
/*
 * A device writes to memory while the shrinker looks for zeros in it: what it
 * writes must not be taken for zeros.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "thp_util.h"

#define ROUNDS		30
#define READERS		2
/* What a read asks for, of a huge page with one live page at its start. */
#define FROM		1
#define PAGES		16
#define LENGTH		(PAGES * PAGE_SIZE)
/* A round ends when all are split, at the latest after this time. */
#define ROUND_SECONDS	2
#define PATTERN		0xa5

static atomic_bool stop;
static const char *device;

struct reader {
	pthread_t thread;
	char *memory;
	long reads, lost;
};

static void pattern_write(void)
{
	static char pages[LENGTH];
	int fd = open(device, O_WRONLY | O_CLOEXEC);
	int i;

	memset(pages, PATTERN, sizeof(pages));
	/* Zram does not store a page with the same word everywhere. */
	for (i = 0; i < PAGES; i++)
		pages[i * PAGE_SIZE + 100] = i;
	expect(fd >= 0 && write(fd, pages, sizeof(pages)) == sizeof(pages) &&
	       !fsync(fd) && !close(fd), "%s: %s", device, strerror(errno));
}

/* Lets the device write to memory that is empty before and afterwards. */
static void *read_all_the_time(void *arg)
{
	struct reader *reader = arg;
	int fd = open(device, O_RDONLY | O_DIRECT | O_CLOEXEC);
	int i;

	expect(fd >= 0, "%s: %s", device, strerror(errno));
	while (!atomic_load(&stop)) {
		expect(pread(fd, reader->memory, LENGTH, 0) == (ssize_t)LENGTH,
		       "%s: %s", device, strerror(errno));
		reader->reads++;
		for (i = 0; i < PAGES; i++)
			reader->lost += reader->memory[i * PAGE_SIZE] !=
					(char)PATTERN;
		memset(reader->memory, 0, LENGTH);
	}
	close(fd);
	return NULL;
}

static void direct_io_kept(void)
{
	long split = counter(SPLIT), reads = 0, lost = 0;
	int round, i;

	device = disk_device();
	if (!device)
		skip("no disk in zram (CONFIG_ZRAM)");
	set_threshold(USUAL_THRESHOLD);
	pattern_write();
	for (round = 0; round < ROUNDS; round++) {
		struct reader readers[READERS];
		struct area area = area_alloc(READERS, 1);
		double end;

		atomic_store(&stop, false);
		for (i = 0; i < READERS; i++) {
			readers[i] = (struct reader){
				.memory = area_thp(&area, i) + FROM * PAGE_SIZE,
			};
			expect(!pthread_create(&readers[i].thread, NULL,
					       read_all_the_time, &readers[i]),
			       "no thread");
		}
		end = now() + ROUND_SECONDS;
		while (area_huge(&area) && now() < end) {
			end_wait();
			trigger();
		}
		atomic_store(&stop, true);
		for (i = 0; i < READERS; i++) {
			pthread_join(readers[i].thread, NULL);
			reads += readers[i].reads;
			lost += readers[i].lost;
		}
		area_verify(&area);
		area_free(&area);
	}
	split = counter(SPLIT) - split;
	note("%ld reads while %ld huge pages were split: %ld pages lost",
	     reads, split, lost);
	expect(split, "no huge page is split");
	expect(!lost, "%ld pages that a device has written are lost", lost);
}

static const struct test tests[] = {
	TEST("zero_remap.direct_io_kept", direct_io_kept, .seconds = 240,
	     .disk = true),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
