// SPDX-License-Identifier: GPL-2.0
/*
 * Processes of one cgroup fault huge pages in and unmap them, all at the same
 * time. The queue of deferred splits has one lock per cgroup and node, and takes
 * part in both: this is what waiting for that lock, or holding it for longer,
 * would slow down.
 *
 * Two kinds of test, each with 1, 2 and 4 processes:
 *
 * faults.N	Each process goes round on its own. Most of the time goes into
 *		clearing huge pages. A fault cannot be had without that, so there
 *		is no test of faults in which clearing is a small part.
 * unmaps.N	The processes wait for each other before they unmap, so that they
 *		meet in the lock as often as they can. There is nothing else to
 *		it than to free huge pages: clearing has no part in what counts.
 *
 * A verdict is about whether the measurement is one: that there were as many huge
 * pages as were asked for. What was measured is in a line of its own:
 *
 *	# faults.N: THPS huge pages, RATE /s, fault NS ns, unmap NS ns
 *
 * RATE is that of all processes together, and includes the waiting in unmaps.N.
 * NS is the processor time of a process for one huge page. A process that waits
 * for a spinlock uses processor time, one that waits for a processor does not.
 */
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "thp_util.h"

#define MOST		4
/* Each process; all of them together fit any host that is used for this. */
#define THPS		32
#define SECONDS		1.0

struct worker {
	struct work *work;
	long huge;		/* of the area, when it was first touched */
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

static double processor_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/*
 * Returns when every process is here. Nobody sleeps, so that all go on at once;
 * the last one decides for all whether it was the last time.
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

	/* A round that is not counted. */
	fault_all(&area);
	worker->huge = area_huge(&area);
	unmap_all(&area);
	meet(work);
	do {
		times[0] = processor_time();
		fault_all(&area);
		times[1] = processor_time();
		worker->fault += times[1] - times[0];
		if (work->together) {
			meet(work);
			times[1] = processor_time();
		}
		unmap_all(&area);
		times[2] = processor_time();
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

static void report(const struct work *work, const char *kind, long faulted)
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
	       "%ld huge pages wanted, the kernel gave %ld",
	       thps + work->processes * THPS, faulted);
	note("%s.%d: %ld huge pages, %.1f /s, fault %.1f ns, unmap %.1f ns",
	     kind, work->processes, thps, rate, fault / thps * 1e9,
	     unmap / thps * 1e9);
}

static void measure(int processes, bool together, const char *kind)
{
	struct work *work = work_new(processes, together);
	long before = counter("thp_fault_alloc");
	pid_t pids[MOST];
	int i;

	/* Without a cgroup of their own they would not be measured in one. */
	cgroup_number("memory.current");
	for (i = 0; i < processes; i++) {
		work->workers[i].work = work;
		pids[i] = helper_start(go_round, &work->workers[i]);
	}
	for (i = 0; i < processes; i++)
		helper_join(pids[i]);
	report(work, kind, counter("thp_fault_alloc") - before);
}

static void faults(long processes)
{
	measure(processes, false, "faults");
}

static void unmaps(long processes)
{
	measure(processes, true, "unmaps");
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
