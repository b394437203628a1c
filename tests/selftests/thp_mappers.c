// SPDX-License-Identifier: GPL-2.0
/*
 * Huge pages that very many processes map: a split visits all of them, while the
 * first one forks, moves halves of the memory, and locks and unlocks it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "thp_util.h"

#define MAPPERS		2000
#define THPS		6
#define TURNS		4

struct mapper {
	const struct area *area;
	int end[2];
	int number;
};

/* Waits until the pipe is closed. Each looks at some pages of its own choice. */
static void map_until_end(void *arg)
{
	struct mapper *mapper = arg;
	const struct area *area = mapper->area;
	char byte;
	int i;

	close(mapper->end[1]);
	expect(!read(mapper->end[0], &byte, 1), "the pipe is not closed");
	for (i = mapper->number; i < area->thps * THP_PAGES; i += 509)
		area_verify_page(area, i);
}

static void verify_first_page(void *area)
{
	area_verify_page(area, 0);
}

/* Away and back, so that for a moment two page tables map the huge page. */
static void move_half(char *thp, char *spare)
{
	char *half = thp + MB;

	expect(mremap(half, MB, MB, MREMAP_MAYMOVE | MREMAP_FIXED, spare + MB) ==
	       spare + MB, "mremap: %s", strerror(errno));
	expect(mremap(spare + MB, MB, MB, MREMAP_MAYMOVE | MREMAP_FIXED, half) ==
	       half, "mremap back: %s", strerror(errno));
}

static void lock_and_unlock(char *thp)
{
	expect(!mlock2(thp, MB, MLOCK_ONFAULT), "mlock2: %s", strerror(errno));
	expect(!munlock(thp, MB), "munlock: %s", strerror(errno));
}

static atomic_bool stop;

/* One at a time, so that there are whole ones left for a while. */
static void *scan(void *unused)
{
	while (!atomic_load(&stop)) {
		end_wait();
		queue_scan(1);
	}
	return unused;
}

static void many_mappers(void)
{
	struct area area, spare;
	pid_t pids[MAPPERS];
	struct mapper mapper = { .area = &area };
	pthread_t scanner;
	int thp, turn, i;
	double began;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(THPS, SPARSE);
	spare = area_map(1);
	expect(!pipe(mapper.end), "pipe: %s", strerror(errno));
	began = now();
	for (i = 0; i < MAPPERS; i++) {
		mapper.number = i;
		pids[i] = helper_start(map_until_end, &mapper);
	}
	close(mapper.end[0]);
	note("%d processes within %.1f s", MAPPERS, now() - began);
	began = now();
	expect(!pthread_create(&scanner, NULL, scan, NULL), "no thread");
	for (turn = 0; turn < TURNS; turn++) {
		for (thp = 0; thp < THPS; thp++) {
			move_half(area_thp(&area, thp), spare.base);
			lock_and_unlock(area_thp(&area, thp));
			helper_join(helper_start(verify_first_page, &area));
		}
	}
	atomic_store(&stop, true);
	pthread_join(scanner, NULL);
	end_wait();
	trigger();
	note("%d turns within %.1f s", TURNS, now() - began);
	expect(!area_whole(&area), "%d of %d huge pages are whole",
	       area_whole(&area), THPS);
	close(mapper.end[1]);
	for (i = 0; i < MAPPERS; i++)
		helper_join(pids[i]);
	area_verify(&area);
}

static const struct test tests[] = {
	TEST("stress.many_mappers", many_mappers, .seconds = 240),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
