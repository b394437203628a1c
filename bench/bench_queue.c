// SPDX-License-Identifier: GPL-2.0
/*
 * Long deferred split queues: huge pages of which nothing can be given back, and
 * what they cost those who reclaim memory.
 *
 * pass_KIND	The shrinker scans the queue, twice in a row.
 * reclaim_KIND	BEHIND sparse huge pages are queued behind them, there is no swap,
 *		and memory.reclaim asks for a part of the sparse ones' memory.
 * four_KIND	The same, by four processes at once, for a part each.
 * cgroups_KIND	Each is in a cgroup of its own. Files are read while the machine is
 *		short of memory: global reclaim, of which the page cache gives
 *		enough, visits all cgroups.
 *
 * KIND is pinned (a pipe has a reference to each, as a device may), mlocked, or used
 * (no page is zero-filled). Pinned and mlocked ones are otherwise sparse.
 *
 * All but cgroups_KIND work on a tenth of the memory first. Figures, times each:
 * few and many (the first pass, for one huge page, over a tenth and over all of them),
 * again (the second pass, for all together), reclaim_few and reclaim (all requests
 * together), read (for READ bytes). growth (share) is many_cpu / few_cpu: 1 if the
 * cost of one does not depend on their number. given_back (thps, of the sparse ones),
 * split (thps, of the others), refused (count: requests that failed).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"

#define FEWER		10
#define BEHIND		32
#define BEHIND_LIVE	40
/* Four of them are half of what the sparse ones can give. */
#define REQUEST		"8M"
#define FOUR		4
/* Fills the memory that the huge pages leave, and more. */
#define READ_BEFORE	(512 * MB)
#define READ		(256 * MB)
/* A test fills gigabytes. */
#define PATIENCE	600

enum kind { PINNED, MLOCKED, USED };

/* --- huge pages that stay --- */

static struct pin pin;

/* One pipe has a page of each. */
static void pin_all(const struct area *area)
{
	int thp;

	expect(!pipe(pin.fds), "pipe: %s", strerror(errno));
	expect(fcntl(pin.fds[1], F_SETPIPE_SZ, area->thps * PAGE_SIZE) > 0,
	       "no pipe for %d pages: %s", area->thps, strerror(errno));
	for (thp = 0; thp < area->thps; thp++) {
		struct iovec page = { area_thp(area, thp), PAGE_SIZE };

		expect(vmsplice(pin.fds[1], &page, 1, SPLICE_F_NONBLOCK) ==
		       (ssize_t)PAGE_SIZE, "vmsplice: %s", strerror(errno));
	}
}

static int live_pages(enum kind kind)
{
	return kind == USED ? THP_PAGES : 1;
}

static void hold(const struct area *area, enum kind kind)
{
	if (kind == PINNED)
		pin_all(area);
	if (kind == MLOCKED)
		expect(!mlock(area->base, area_size(area)), "mlock: %s",
		       strerror(errno));
}

static struct area area_held(enum kind kind, int thps)
{
	struct area area = area_scatter(thps, live_pages(kind), FIRST);

	hold(&area, kind);
	return area;
}

static void release(struct area *area, enum kind kind)
{
	if (kind == PINNED)
		unpin(pin);
	area_free(area);
}

/* --- passes of the shrinker --- */

/* The cost for one huge page, less an empty scan. */
static struct spent each(struct spent spent, struct spent none, int thps)
{
	spent.time = (spent.time - none.time) / thps;
	spent.cpu = (spent.cpu - none.cpu) / thps;
	return spent;
}

struct passes {
	struct spent first;	/* for one huge page */
	struct spent again;	/* for all of them */
	long split;
};

static struct passes pass_over(enum kind kind, int thps)
{
	struct spent none = scan();
	struct area area = area_held(kind, thps);
	struct passes passes;

	expect_queued(thps);
	passes.first = each(scan(), none, thps);
	passes.again = scan();
	passes.split = thps - area_huge(&area);
	release(&area, kind);
	return passes;
}

static void pass(long kind)
{
	int thps = bench_thps();
	struct passes few, many;

	need_shrinker();
	/* The first run takes longer: see bench.h. */
	pass_over(kind, 1);
	few = pass_over(kind, thps / FEWER);
	many = pass_over(kind, thps);
	figure_spent("few", few.first);
	figure_spent("many", many.first);
	figure_spent("again", many.again);
	figure("growth", many.first.cpu / few.first.cpu, "share");
	figure("split", many.split, "thps");
}

/* --- memory.reclaim --- */

/* The processes that reclaim wait in these pipes. */
struct crowd {
	int start[2], done[2], leave[2];
};

static void reclaim_one(void *arg)
{
	struct crowd *crowd = arg;
	char refused;
	int error;

	hear(crowd->start[0]);
	error = cgroup_write("memory.reclaim", REQUEST);
	expect(!error || error == -EAGAIN, "memory.reclaim: %s",
	       strerror(-error));
	refused = !!error;
	expect(write(crowd->done[1], &refused, 1) == 1, "pipe: %s",
	       strerror(errno));
	/* The clock counts processes that have not ended. */
	hear(crowd->leave[0]);
}

static struct spent reclaim_all(int processes, int *refused)
{
	struct crowd crowd;
	struct spent spent;
	pid_t pids[FOUR];
	char answer;
	int i;

	expect(!pipe(crowd.start) && !pipe(crowd.done) && !pipe(crowd.leave),
	       "pipe: %s", strerror(errno));
	for (i = 0; i < processes; i++)
		pids[i] = helper_start(reclaim_one, &crowd);

	spent = clock_start();
	for (i = 0; i < processes; i++)
		tell(crowd.start[1]);
	for (*refused = 0, i = 0; i < processes; i++) {
		expect(read(crowd.done[0], &answer, 1) == 1, "pipe: %s",
		       strerror(errno));
		*refused += answer;
	}
	spent = clock_stop(spent);

	for (i = 0; i < processes; i++)
		tell(crowd.leave[1]);
	for (i = 0; i < processes; i++)
		helper_join(pids[i]);
	return spent;
}

struct request {
	struct spent spent;
	int refused;
	long given_back, split;
};

static struct request reclaim_past(enum kind kind, int thps, int processes)
{
	struct area area = area_held(kind, thps);
	struct area sparse = area_scatter(BEHIND, BEHIND_LIVE, ANYWHERE);
	struct request request;

	request.spent = reclaim_all(processes, &request.refused);
	request.given_back = BEHIND - area_huge(&sparse);
	request.split = thps - area_huge(&area);
	area_free(&sparse);
	release(&area, kind);
	return request;
}

static void reclaim_by(enum kind kind, int processes)
{
	int thps = bench_thps();
	struct request few, many;

	/* Kernels without a shrinker are measured, too. */
	set_threshold(USUAL_THRESHOLD);
	cgroup_set("memory.swap.max", "0");
	/* The first run takes longer: see bench.h. */
	reclaim_past(kind, 1, processes);
	few = reclaim_past(kind, thps / FEWER, processes);
	many = reclaim_past(kind, thps, processes);
	figure_spent("reclaim_few", few.spent);
	figure_spent("reclaim", many.spent);
	figure("given_back", many.given_back, "thps");
	figure("split", many.split, "thps");
	figure("refused", many.refused, "count");
}

static void reclaim(long kind)
{
	reclaim_by(kind, 1);
}

static void four(long kind)
{
	reclaim_by(kind, FOUR);
}

/* --- many cgroups --- */

/* Memory stays charged to the cgroup in which it was faulted in. */
static struct area area_of_cgroups(int cgroups, int live)
{
	struct area area = area_map(cgroups);
	char name[32];
	int i, page;

	cgroup_make("main");
	cgroup_go("main");
	for (i = 0; i < cgroups; i++) {
		snprintf(name, sizeof(name), "of_one_%d", i);
		cgroup_make(name);
		cgroup_go(name);
		area_choose(&area, i, live, FIRST_BYTE);
		touch(area_thp(&area, i));
		for (page = i * THP_PAGES; page < (i + 1) * THP_PAGES; page++)
			area_write(&area, page, area.live[page]);
	}
	cgroup_go("main");
	expect(area_huge(&area) == cgroups, "%ld huge pages, not %d",
	       area_huge(&area), cgroups);
	return area;
}

static void cgroups(long kind)
{
	int count = bench_thps();
	struct rise reclaimed[] = {
		RISE("reclaimed_directly", "pgsteal_direct", "pages"),
		RISE("reclaimed_by_kswapd", "pgsteal_kswapd", "pages"),
	};
	struct spent spent;
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_of_cgroups(count, live_pages(kind));
	hold(&area, kind);
	cache_fill(READ_BEFORE);
	rises_begin(reclaimed, ARRAY_SIZE(reclaimed));

	spent = clock_start();
	cache_fill(READ);
	figure_spent("read", clock_stop(spent));
	rises_print(reclaimed, ARRAY_SIZE(reclaimed));
	figure("split", count - area_huge(&area), "thps");
	expect(counter("pgsteal_kswapd") > reclaimed[1].before,
	       "memory was not short");
}

#define TEST_KINDS(name_, run_, ...)					\
	TEST_WITH(name_ "_pinned", run_, PINNED, .seconds = PATIENCE,	\
		  ##__VA_ARGS__),					\
	TEST_WITH(name_ "_mlocked", run_, MLOCKED, .seconds = PATIENCE,	\
		  ##__VA_ARGS__),					\
	TEST_WITH(name_ "_used", run_, USED, .seconds = PATIENCE,	\
		  ##__VA_ARGS__)

static const struct test tests[] = {
	TEST_KINDS("pass", pass),
	TEST_KINDS("reclaim", reclaim),
	TEST_KINDS("four", four),
	TEST_KINDS("cgroups", cgroups, .disk = true),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
