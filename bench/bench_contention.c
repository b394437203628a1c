// SPDX-License-Identifier: GPL-2.0
/*
 * Processes of one cgroup fault huge pages in and unmap them at the same time. The
 * deferred split queue has one lock per cgroup and node. kernel-thp takes it for
 * each fault and each free, stock 6.1 for each free only. Processes that hold the
 * lock for longer, or wait for it, show up here.
 *
 * Each test runs with 1, 2 and 4 processes:
 *
 * faults.N	Each process faults and unmaps on its own. The fault clears the
 *		huge page, which takes most of the time.
 * unmaps.N	The processes wait for each other before they unmap, so that they
 *		contend for the lock as much as possible. unmap contains no
 *		clearing.
 *
 * Figures: per_thp_time (elapsed time for one huge page, all processes together,
 * including the waiting of unmaps.N), fault and unmap (processor time of a process
 * for one huge page), thps. A process that waits for a spinlock uses processor
 * time, one that waits for a processor does not.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

#define MOST		4
/* Of each process. */
#define THPS		32
#define SECONDS		1.0

struct worker {
	struct work *work;
	long huge;		/* in the area, after its first faults */
	long thps;
	double rate;		/* per second */
	double fault, unmap;	/* seconds of processor time */
};

/* Shared by all processes of a test. */
struct work {
	int processes;
	bool together;		/* unmap at the same time */
	atomic_int arrived, meetings;
	bool over;		/* as of the last meeting */
	double began;
	struct worker workers[MOST];
};

/*
 * Return when every process is here. None of them sleeps, so they all go on at
 * once. The last to arrive decides for all of them whether this was the last round.
 */
static void meet(struct work *work)
{
	int before = atomic_load(&work->meetings);

	if (atomic_fetch_add(&work->arrived, 1) + 1 < work->processes) {
		while (atomic_load(&work->meetings) == before)
			sched_yield();
		return;
	}
	if (!before)
		work->began = now();
	work->over = now() - work->began >= SECONDS;
	atomic_store(&work->arrived, 0);
	atomic_store(&work->meetings, before + 1);
}

static void fault_all(const struct area *area)
{
	int thp;

	for (thp = 0; thp < area->thps; thp++)
		touch(area_thp(area, thp));
}

static void unmap_all(const struct area *area)
{
	expect(!madvise(area->base, area_size(area), MADV_DONTNEED),
	       "MADV_DONTNEED: %s", strerror(errno));
}

static void go_round(void *arg)
{
	struct worker *worker = arg;
	struct work *work = worker->work;
	struct area area = area_map(THPS);
	double times[3];
	bool over;

	/* Warm up. */
	fault_all(&area);
	worker->huge = area_huge(&area);
	unmap_all(&area);
	meet(work);
	do {
		times[0] = own_cpu_time();
		fault_all(&area);
		times[1] = own_cpu_time();
		worker->fault += times[1] - times[0];
		if (work->together) {
			meet(work);
			times[1] = own_cpu_time();
		}
		unmap_all(&area);
		times[2] = own_cpu_time();
		worker->unmap += times[2] - times[1];
		worker->thps += THPS;
		over = work->together ? work->over :
					now() - work->began >= SECONDS;
	} while (!over);
	worker->rate = worker->thps / (now() - work->began);
}

static struct work *work_new(int processes, bool together)
{
	struct work *work = mmap(NULL, sizeof(*work), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	expect(work != MAP_FAILED, "mmap: %s", strerror(errno));
	work->processes = processes;
	work->together = together;
	return work;
}

static void report(const struct work *work, long faulted)
{
	double rate = 0, fault = 0, unmap = 0;
	long thps = 0;
	int i;

	for (i = 0; i < work->processes; i++) {
		expect(work->workers[i].huge == THPS,
		       "process %d got %ld huge pages instead of %d", i,
		       work->workers[i].huge, THPS);
		thps += work->workers[i].thps;
		rate += work->workers[i].rate;
		fault += work->workers[i].fault;
		unmap += work->workers[i].unmap;
	}
	expect(faulted >= thps + work->processes * THPS,
	       "wanted %ld huge pages, got %ld",
	       thps + work->processes * THPS, faulted);
	figure("per_thp_time", 1 / rate, "s");
	figure("fault", fault / thps * 1e9, "ns");
	figure("unmap", unmap / thps * 1e9, "ns");
	figure("thps", thps, "thps");
}

static void measure(int processes, bool together)
{
	struct work *work = work_new(processes, together);
	long before = counter("thp_fault_alloc");
	pid_t pids[MOST];
	int i;

	/* Fail without a memory cgroup: its queue is what is measured. */
	cgroup_number("memory.current");
	for (i = 0; i < processes; i++) {
		work->workers[i].work = work;
		pids[i] = helper_start(go_round, &work->workers[i]);
	}
	for (i = 0; i < processes; i++)
		helper_join(pids[i]);
	report(work, counter("thp_fault_alloc") - before);
}

static void faults(long processes)
{
	measure(processes, false);
}

static void unmaps(long processes)
{
	measure(processes, true);
}

static const struct test tests[] = {
	TEST_WITH("faults.1", faults, 1),
	TEST_WITH("faults.2", faults, 2),
	TEST_WITH("faults.4", faults, MOST),
	TEST_WITH("unmaps.1", unmaps, 1),
	TEST_WITH("unmaps.2", unmaps, 2),
	TEST_WITH("unmaps.4", unmaps, MOST),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
