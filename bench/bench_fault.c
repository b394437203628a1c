// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of faulting a huge page in and of freeing it, for 1 and 2 threads of one
 * process.
 *
 * Figures, each in processor time of a thread for one huge page: fault, free, and
 * clear. Clearing is most of a fault and the same on every kernel. clear is the time
 * that a loop of plain stores takes for it, to be subtracted: kernels use the same
 * loop on processors without fast string instructions, like the benchmark's.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

#define MOST	2
#define ROUNDS	8

struct worker {
	pthread_t thread;
	pthread_barrier_t *start;
	struct area area;
	double fault, free, clear;	/* seconds */
};

static void fault_all(const struct area *area)
{
	int thp;

	for (thp = 0; thp < area->thps; thp++)
		touch(area_thp(area, thp));
}

static void free_all(const struct area *area)
{
	expect(!madvise(area->base, area_size(area), MADV_DONTNEED),
	       "MADV_DONTNEED: %s", strerror(errno));
}

/* One iteration for each cache line. */
static void clear_all(const struct area *area)
{
	volatile long *line = (long *)area->base;
	volatile long *end = (long *)(area->base + area_size(area));

	for (; line < end; line += 8) {
		line[0] = 0;
		line[1] = 0;
		line[2] = 0;
		line[3] = 0;
		line[4] = 0;
		line[5] = 0;
		line[6] = 0;
		line[7] = 0;
	}
}

static double timed(void (*work)(const struct area *area),
		    const struct area *area)
{
	double began = own_cpu_time();

	work(area);
	return own_cpu_time() - began;
}

static void *go_round(void *arg)
{
	struct worker *worker = arg;
	int round;

	/* Warm up. */
	fault_all(&worker->area);
	free_all(&worker->area);
	pthread_barrier_wait(worker->start);
	for (round = 0; round < ROUNDS; round++) {
		worker->fault += timed(fault_all, &worker->area);
		worker->clear += timed(clear_all, &worker->area);
		worker->free += timed(free_all, &worker->area);
	}
	return NULL;
}

static void fault(long threads)
{
	double thps = threads * ROUNDS * bench_thps();
	/* Including the warm-up. */
	long wanted = threads * (ROUNDS + 1) * bench_thps();
	long faulted = counter("thp_fault_alloc");
	struct worker workers[MOST] = { 0 }, sum = { 0 };
	pthread_barrier_t start;
	int i;

	if (sysconf(_SC_NPROCESSORS_ONLN) < threads)
		skip("fewer than %ld processors", threads);
	pthread_barrier_init(&start, NULL, threads);
	sample(true);
	for (i = 0; i < threads; i++) {
		workers[i].start = &start;
		workers[i].area = area_map(bench_thps());
		expect(!pthread_create(&workers[i].thread, NULL, go_round,
				       &workers[i]), "no thread");
	}
	for (i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		sum.fault += workers[i].fault;
		sum.clear += workers[i].clear;
		sum.free += workers[i].free;
	}
	sample(false);

	faulted = counter("thp_fault_alloc") - faulted;
	expect(faulted >= wanted, "%ld huge pages instead of %ld", faulted,
	       wanted);
	figure("fault", sum.fault / thps * 1e9, "ns");
	figure("free", sum.free / thps * 1e9, "ns");
	figure("clear", sum.clear / thps * 1e9, "ns");
}

static const struct test tests[] = {
	TEST_WITH("fault_1", fault, 1),
	TEST_WITH("fault_2", fault, MOST),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
