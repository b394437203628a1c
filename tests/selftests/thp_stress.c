// SPDX-License-Identifier: GPL-2.0
/*
 * Everything at once: processes and threads fault, unmap, share and partially
 * unmap dense and sparse huge pages, while others scan the queue and split.
 * Nothing may hang, no byte may change, nothing may stay queued.
 *
 * THP_STRESS_SECONDS in the environment sets the duration, for runs of hours.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thp_util.h"

#define SECONDS		10
#define WORKERS		3

static double end;

static void fork_and_verify(struct area *area)
{
	pid_t pid = fork();

	expect(pid >= 0, "fork: %s", strerror(errno));
	if (!pid) {
		area_verify(area);
		_exit(0);
	}
	area_verify(area);
	helper_join(pid);
}

static void one_area(unsigned int choice)
{
	struct area area = area_map(1 + choice % 4);
	int thp;

	for (thp = 0; thp < area.thps; thp++)
		area_choose(&area, thp, (choice >> thp) & 1 ? DENSE : SPARSE,
			    FIRST_BYTE + (choice + thp) % WHOLE);
	area_fill_any(&area);
	if (choice & 16)
		area_drop_page(&area, (choice >> 5) % THP_PAGES);
	if (choice & 32)
		madvise(area.base, area_size(&area), MADV_COLLAPSE);
	if (choice & 64)
		fork_and_verify(&area);
	else
		area_verify(&area);
	area_free(&area);
}

static void *work(void *number)
{
	unsigned int seed = (uintptr_t)number + 1;
	long rounds = 0;

	while (now() < end) {
		one_area(rand_r(&seed));
		rounds++;
	}
	return (void *)rounds;
}

static void *scan(void *unused)
{
	long rounds = 0;

	(void)unused;
	while (now() < end) {
		queue_scan(1 + rounds % 32);
		rounds++;
	}
	return (void *)rounds;
}

static void pressure(void *unused)
{
	pthread_t threads[WORKERS + 1];
	long rounds = 0;
	void *done;
	long i;

	(void)unused;
	for (i = 0; i < WORKERS; i++)
		expect(!pthread_create(&threads[i], NULL, work, (void *)i),
		       "no thread");
	expect(!pthread_create(&threads[WORKERS], NULL, scan, NULL),
	       "no thread");
	for (i = 0; i < WORKERS; i++) {
		pthread_join(threads[i], &done);
		rounds += (long)done;
	}
	pthread_join(threads[WORKERS], &done);
	note("%ld areas, %ld scans", rounds, (long)done);
	expect(rounds && done, "nothing was done");
}

static double seconds(void)
{
	const char *text = getenv("THP_STRESS_SECONDS");

	return text ? atof(text) : SECONDS;
}

static void all_at_once(void)
{
	pid_t pid;

	set_threshold(USUAL_THRESHOLD);
	end = now() + seconds();
	pid = helper_start(pressure, NULL);
	helper_join(pid);
	expect(!queue_count(), "%ld huge pages still queued", queue_count());
}

int main(int argc, char **argv)
{
	const struct test tests[] = {
		TEST("stress.all_at_once", all_at_once,
		     .seconds = 60 + seconds()),
	};

	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
