// SPDX-License-Identifier: GPL-2.0
/*
 * vm.defrag_mode: free memory is kept in whole pageblocks, and pages of another
 * kind get into a block only when nothing else is left. How memory is taken to
 * pieces for that: thp_blocks.c. What happens under load: thp_defrag_load.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thp_util.h"

#define VM		"/proc/sys/vm/"
#define MIN_FREE	VM "min_free_kbytes"
#define SCALE		VM "watermark_scale_factor"
#define LOOKED_AT	"compact_daemon_migrate_scanned"
#define REFUSED		"vm.defrag_mode: not possible"

#define UNMOVABLE	(256 * MB)	/* more than kcompactd keeps ready */
#define MOST_THPS	200
#define SPARSE_THPS	256
#define WANTED_THPS	32
#define SIGNALS_SIZE	(30 * MB)	/* 50 in a page, or 10 with KASAN */
#define SIGNALS_AT_ONCE	1000
#define FAR_FILE	1500
#define TABLE_ORDER	2
#define TABLES		160
#define ROOM_LEFT	((long)(MB / 2))
#define ENOUGH_RECLAIMED 128	/* pages: two batches are 64 */
#define ENOUGH_FAILED	8
#define MOST_TAKEN	256	/* pages: less than a block of them */
#define ENOUGH_ROOM	((long)THP_SIZE)
#define ROOM_WITHIN	10	/* seconds */
#define MOST_ASKED	2
#define MOST_TIMES	8
#define ENDS		(64 * MB)
#define SECONDS		120
#define MOST_WAIT	90	/* seconds */
#define LONGEST_REST	70
#define SOME		(256 * MB)
#define MOST_WORK	40
#define MOST_TURNS	4

static long file_number(const char *path)
{
	char text[64];

	expect(!file_read(path, text, sizeof(text)), "%s cannot be read", path);
	return atol(text);
}

/* --- the switch --- */

static void values(void)
{
	static const char * const bad[] = { "2", "-1", "x", "1x" };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		bool on = i % 2;

		file_set(DEFRAG_MODE, on ? "1" : "0");
		expect(file_write(DEFRAG_MODE, bad[i]) == -EINVAL, "takes \"%s\"",
		       bad[i]);
		expect(file_number(DEFRAG_MODE) == on, "\"%s\" changes it", bad[i]);
	}
	file_set(DEFRAG_MODE, "0\n");
	expect(!file_number(DEFRAG_MODE), "still on");
}

/* Where the watermarks are less than two blocks, as on a small machine. */
static void refused_when_small(void)
{
	char line[256];
	int log = log_open(), error;

	file_set(SCALE, "1");
	file_set(MIN_FREE, "256");
	if (zoneinfo("high") >= 2 * (long)THP_SIZE)
		skip("needs a host with less memory, and lower watermarks");
	error = file_write(DEFRAG_MODE, "1");
	expect(error == -EOPNOTSUPP, "%s, not EOPNOTSUPP", strerror(-error));
	expect(!file_number(DEFRAG_MODE), "on nevertheless");
	while (log_line(log, line, sizeof(line))) {
		if (strstr(line, REFUSED))
			return;
	}
	fail("the log does not say why");
}

static long in_blocks(void)
{
	return zoneinfo("nr_free_pages_blocks");
}

/* So that there is much free memory beside the blocks. */
static void take_some_to_pieces(void)
{
	size_t size = 256 * MB, i;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	madvise(memory, size, MADV_NOHUGEPAGE);
	for (i = 0; i < size; i += PAGE_SIZE)
		memory[i] = 1;
	for (i = 0; i < size; i += 2 * PAGE_SIZE)
		madvise(memory + i, PAGE_SIZE, MADV_DONTNEED);
}

/* The same from another file. */
static void blocks_counted(void)
{
	long large, blocks;

	take_some_to_pieces();
	large = in_large_buddies();
	blocks = in_blocks();
	expect(blocks > 0 && blocks <= large + 16 * (long)THP_SIZE,
	       "%ld MB in blocks, and %ld MB in buddies as large",
	       blocks / (long)MB, large / (long)MB);
}

/* --- requests of pages that cannot be moved --- */

static void mixed_by_pipes(const char *mode)
{
	take_to_pieces();
	/* Else its blocks are enough, and nobody works for one himself. */
	occupy_kcompactd();
	file_set(DEFRAG_MODE, mode);
	trace_mixing();
	fill_pipes(in_large_buddies() + UNMOVABLE);
	note_free();
}

/* The measure of the next test: without the mode, pages get into many blocks. */
static void mixes_when_off(void)
{
	mixed_by_pipes("0");
	expect(mixed() >= 10, "mixed only %d times", mixed());
}

static void mixes_nothing(void)
{
	int times;

	mixed_by_pipes("1");
	times = mixed();
	expect(!times, "mixed %d times, %d times for a pipe", times,
	       mixed_by("pipe_write"));
}

static void mixed_by_helper(void *unused)
{
	(void)unused;
	mixed_by_pipes("1");
}

/* What was split off a larger page and leaked would be missed here. */
static void loses_nothing(void)
{
	int status;

	need_all_memory();
	watch_for_leaks();
	/* Who loses enough is killed for it. */
	expect(waitpid(helper_start(mixed_by_helper, NULL), &status, 0) > 0,
	       "waitpid: %s", strerror(errno));
	if (WIFEXITED(status) && WEXITSTATUS(status))
		_exit(WEXITSTATUS(status));
	expect_no_leak();
}

/* --- the last resort --- */

static void take_more(void *unused)
{
	(void)unused;
	exhaust_kind();
	fill_pipes(RECLAIMABLE);
}

/* A request without an end would not be noticed by a process that makes it. */
static void mixes_before_oom(void)
{
	double end = now() + patience(MOST_WAIT);
	siginfo_t ended = { .si_pid = 0 };
	pid_t pid;

	/* To say that is not to need a page: map it now. */
	expect(!*reason, "%s", reason);
	pid = helper_start(take_more, NULL);
	while (!ended.si_pid) {
		expect(now() < end, "a request for a page has no end");
		usleep(100000);
		expect(!waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT),
		       "waitid: %s", strerror(errno));
	}
	helper_join(pid);
}

/* Each signal that is queued takes memory that is allocated with GFP_ATOMIC. */
static void queue_signals(void)
{
	struct rlimit pending = { RLIM_INFINITY, RLIM_INFINITY };
	union sigval value = { .sival_int = 0 };
	long before = meminfo("SUnreclaim"), i;
	sigset_t blocked;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMIN);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	expect(!setrlimit(RLIMIT_SIGPENDING, &pending), "RLIMIT_SIGPENDING: %s",
	       strerror(errno));
	for (i = 0; i % SIGNALS_AT_ONCE ||
		    meminfo("SUnreclaim") < before + (long)SIGNALS_SIZE; i++)
		expect(!sigqueue(getpid(), SIGRTMIN, value),
		       "signal %ld is not queued: %s", i, strerror(errno));
}

static void atomic_gets_memory(void)
{
	int before;

	exhaust_kind();
	before = mixed();
	queue_signals();
	expect(mixed() > before, "there were pages of that kind left");
}

struct waits {
	int begin[2], done[2];
};

/*
 * With a file as high as that, the table of the process needs 16 KB. The kernel asks
 * for them in one piece, and maps single pages if it cannot have that.
 */
static void take_table(void *arg)
{
	struct waits *waits = arg;

	hear(waits->begin[0]);
	expect(dup2(0, FAR_FILE) == FAR_FILE, "dup2: %s", strerror(errno));
	tell(waits->done[1]);
	pause();
}

/* Started early: processes that are made later copy a table that is large already. */
static struct waits will_take_tables(void)
{
	struct rlimit files = { FAR_FILE + 1, FAR_FILE + 1 };
	struct waits waits;
	int i;

	expect(!setrlimit(RLIMIT_NOFILE, &files), "RLIMIT_NOFILE: %s",
	       strerror(errno));
	expect(!pipe(waits.begin) && !pipe(waits.done), "pipe: %s",
	       strerror(errno));
	for (i = 0; i < TABLES; i++)
		helper_start(take_table, &waits);
	return waits;
}

/* How many tables get their pages in one piece at the cost of a block? */
static int mixed_for_tables(const struct waits *waits)
{
	int i;

	trace_mixing_for(TABLE_ORDER);
	for (i = 0; i < TABLES; i++)
		tell(waits->begin[1]);
	for (i = 0; i < TABLES; i++)
		hear(waits->done[0]);
	return mixed_by("expand_files");
}

/* Who asks for several pages and can do without does not get a block mixed. */
static void rather_fails(void)
{
	struct waits on = will_take_tables(), off = will_take_tables();
	int mixed;

	exhaust_kind();
	mixed = mixed_for_tables(&on);
	expect(!mixed, "mixed %d times for what is not needed", mixed);
	file_set(DEFRAG_MODE, "0");
	expect(mixed_for_tables(&off), "no table is in one piece without the mode");
}

/* There is much free memory. That none of it is in blocks is no reason to reclaim. */
static void reclaims_no_more(void)
{
	long before, stolen;

	exhaust_kind();
	before = counter("pgsteal_kswapd");
	queue_signals();
	stolen = counter("pgsteal_kswapd") - before;
	note("kswapd has reclaimed %ld pages", stolen);
	expect(stolen <= 1024, "kswapd has reclaimed %ld pages", stolen);
}

/* --- kcompactd --- */

static struct area fault_thps(int thps, const char *defrag)
{
	struct area area = area_map(thps);
	int thp;

	knob_set("defrag", defrag);
	for (thp = 0; thp < thps; thp++)
		touch(area_thp(&area, thp));
	return area;
}

/* Faults that do not work for a huge page themselves: they wake kcompactd. */
static struct area ask_for_thps(int thps)
{
	return fault_thps(thps, "defer");
}

/* Who gets a block wakes nobody: ask for so many more than there are. */
static int thps_beyond(int more)
{
	return in_large_buddies() / THP_SIZE + more;
}

/* Nobody is woken by these, and none comes from another node. */
static void take_blocks(void)
{
	int node, thps;

	for (node = 0; node < 2; node++) {
		prefer_node(node);
		thps = thps_beyond(0);
		if (thps)
			fault_thps(thps, "never");
	}
	prefer_node(0);
}

/*
 * In how many zones is as much free in blocks as the high watermark, without the
 * boost that what ran before may have left?
 */
static int zones_with_blocks(void)
{
	FILE *file = fopen("/proc/zoneinfo", "re");
	char line[256], zone[64] = "", key[64];
	long value, boost = 0, high = 0;
	int zones = 0;

	expect(file, "/proc/zoneinfo: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		sscanf(line, "Node %*d, zone %63s", zone);
		if (sscanf(line, " %63s %ld", key, &value) != 2)
			continue;
		if (!strcmp(key, "boost"))
			boost = value;
		if (!strcmp(key, "high"))
			high = value - boost;
		if (!strcmp(key, "nr_free_pages_blocks") && high &&
		    strcmp(zone, "DMA"))
			zones += value >= high;
	}
	fclose(file);
	return zones;
}

/* After failures, kcompactd leaves out up to 63 calls, or rests for a minute. */
static bool kcompactd_begins(double end)
{
	long before = counter(LOOKED_AT);

	while (counter(LOOKED_AT) == before) {
		struct area area = ask_for_thps(thps_beyond(1));

		area_free(&area);
		if (now() >= end)
			return false;
		usleep(20000);
	}
	return true;
}

/* How many bytes in blocks does kcompactd make of what is free, in the mode? */
static long blocks_made(void)
{
	double end = now() + LONGEST_REST;
	int turns;

	file_set(DEFRAG_MODE, "1");
	/* Mostly it begins at once, and once is enough. */
	for (turns = 0; turns < MOST_TURNS && !zones_with_blocks() &&
			kcompactd_begins(end); turns++)
		sleep(3);
	return in_large_buddies();
}

static void keeps_blocks(void)
{
	long made;

	take_to_pieces();
	take_blocks();
	expect(!zones_with_blocks(), "there are enough blocks already");
	made = blocks_made();
	expect(zones_with_blocks(), "only %ld MB in blocks", made / (long)MB);
}

/* What is left of a sparse huge page keeps its block until it is moved. */
static void made_of_sparse(void)
{
	long free, before, alone;
	struct area area;
	size_t size;

	need_all_memory();
	cgroup_set("memory.swap.max", "0");
	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(SPARSE_THPS, SPARSE);
	fill_memory(&size);
	take_blocks();
	free = meminfo("MemFree");
	before = in_large_buddies();
	trigger();
	free = meminfo("MemFree") - free;
	alone = in_large_buddies();
	expect(!zones_with_blocks(), "there are enough blocks already");
	note("the shrinker gives %ld MB back; in blocks are %ld MB before, %ld MB after, and %ld MB with kcompactd in defrag mode",
	     free / (long)MB, before / (long)MB, alone / (long)MB,
	     blocks_made() / (long)MB);
	expect(zones_with_blocks(), "only %ld MB in blocks",
	       in_large_buddies() / (long)MB);
	area_verify(&area);
}

/*
 * Those who compact themselves put off the next ones as well, on each node by itself.
 * One success there ends that.
 */
static void end_deferral(void)
{
	int node, thp;

	for (node = 0; node < 2; node++) {
		long before = counter("compact_success");
		struct area area = area_map(MOST_THPS);

		bind_to_node(node);
		for (thp = 0; counter("compact_success") == before; thp++) {
			expect(thp < area.thps,
			       "compaction makes no huge page on node %d", node);
			touch(area_thp(&area, thp));
		}
		area_free(&area);
	}
	use_any_node();
}

/*
 * Compaction leaves hints to skip the blocks in which it could not move anything.
 * It could not when it looked, and soon it can.
 */
static void ignores_hints(void)
{
	long fallback;
	struct mapping pieces = take_to_pieces();
	struct area area, wanted;
	int thp;

	file_set(DEFRAG_MODE, "1");
	end_deferral();
	occupy_kcompactd();
	lock_in_place(pieces);
	area = area_map(MOST_THPS);
	fallback = counter("thp_fault_fallback");
	for (thp = 0; counter("thp_fault_fallback") == fallback; thp++) {
		expect(thp < area.thps, "still makes huge pages");
		touch(area_thp(&area, thp));
	}
	munlock(pieces.memory, pieces.size);
	file_set(MOVE_LOCKED, "1");

	wanted = area_map(WANTED_THPS);
	for (thp = 0; thp < wanted.thps; thp++)
		touch(area_thp(&wanted, thp));
	note_free();
	expect(area_whole(&wanted) >= wanted.thps / 2, "only %d of %d THPs",
	       area_whole(&wanted), wanted.thps);
}

/*
 * Half of the part is free, all of that beside pages that cannot be moved. Returns
 * what fills the rest of memory.
 */
static struct mapping take_unmovable_to_pieces(size_t part)
{
	size_t size;
	char *memory;
	long pipes;

	need_all_memory();
	cgroup_set("memory.swap.max", "0");
	memory = fill_memory(&size);
	expect(size > part, "only %zu MB could be filled", size / MB);
	/* The ends are on different nodes. */
	munmap(memory, part / 2);
	munmap(memory + size - part / 2, part / 2);
	/* They get nothing from CMA areas. */
	pipes = (long)(part - RECLAIMABLE) - zoneinfo("nr_free_cma");
	expect(pipes > 0, "nothing is free outside of CMA areas");
	fill_pipes(pipes);
	halve_pipes();
	note_free();
	return (struct mapping){ memory + part / 2, size - part };
}

/*
 * Returns how many pages kcompactd has looked at while it was asked in vain. What
 * it makes is taken and kept: blocks that come and go are work for it each time.
 */
static long looked_at(double seconds)
{
	long before = counter(LOOKED_AT);
	double end = now() + seconds;

	while (now() < end) {
		ask_for_thps(thps_beyond(8));
		usleep(100000);
	}
	return counter(LOOKED_AT) - before;
}

/*
 * At ten calls a second, of which compaction leaves out up to 63 in a row. At first
 * there may be something to gain.
 */
static void rests_when_useless(void)
{
	double end;
	long then;

	take_unmovable_to_pieces(SOME);
	take_blocks();
	file_set(DEFRAG_MODE, "1");
	expect(kcompactd_begins(now() + LONGEST_REST), "kcompactd does not begin");
	end = now() + MOST_WORK;
	while ((then = looked_at(10))) {
		note("kcompactd looked at %ld pages", then);
		expect(now() < end, "kcompactd goes on: it looked at %ld pages more",
		       then);
	}
}

/*
 * A pass for blocks may last. What it found may be past when it ends, and what it
 * made taken: those who compact themselves find out by themselves.
 */
static void kcompactd_defers_nobody(void)
{
	double end;

	lock_in_place(take_to_pieces());
	take_blocks();
	trace_kcompactd("compaction/mm_compaction_end");
	trace_kcompactd("compaction/mm_compaction_defer_compaction");
	file_set(DEFRAG_MODE, "1");
	/* Only now: to fill all memory takes a debug kernel a minute. */
	end = now() + LONGEST_REST;
	while (!trace_lines("mm_compaction_end:", "status=complete")) {
		expect(now() < end, "no pass of kcompactd ends in vain");
		looked_at(1);
	}
	usleep(100000);
	expect(!trace_lines("mm_compaction_defer_compaction:", ""),
	       "kcompactd defers others");
}

/* --- room for what can be moved --- */

/*
 * As above, with next to nothing free where movable pages may go, until every other
 * page at the ends is reclaimed. The watermarks see none of that. Returns what
 * kswapd had reclaimed before it could reclaim these: it may be at work already.
 */
static long leave_no_movable_room(size_t part)
{
	struct mapping rest = take_unmovable_to_pieces(part);
	size_t step = 16 * PAGE_SIZE, i;
	char *more = mmap(NULL, 256 * MB, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long reclaimed;

	expect(more != MAP_FAILED, "mmap: %s", strerror(errno));
	take_blocks();
	file_set(DEFRAG_MODE, "1");
	madvise(more, 256 * MB, MADV_NOHUGEPAGE);
	for (i = 0; movable_free() > ROOM_LEFT; i += step) {
		expect(i < 256 * MB, "%ld MB are still free for movable pages",
		       movable_free() / (long)MB);
		expect(!madvise(more + i, step, MADV_POPULATE_WRITE),
		       "MADV_POPULATE_WRITE: %s", strerror(errno));
	}
	expect(rest.size > 2 * ENDS, "only %zu MB", rest.size / MB);
	reclaimed = counter("pgsteal_kswapd");
	for (i = 0; i < ENDS; i += 2 * PAGE_SIZE) {
		madvise(rest.memory + i, PAGE_SIZE, MADV_FREE);
		madvise(rest.memory + rest.size - ENDS + i, PAGE_SIZE, MADV_FREE);
	}
	note("%ld MB free, %ld KB in blocks, %ld KB beside them for movable pages",
	     meminfo("MemFree") / (long)MB, in_large_buddies() / (long)KB,
	     movable_free() / (long)KB);

	return reclaimed;
}

/*
 * Compaction has nowhere to move pages to, so that requests reclaim. For some of them
 * a batch is enough, as a bit of room was left. One of them reclaims what is missing,
 * which is more than a batch or two.
 */
static void makes_movable_room(void)
{
	long fallback, reclaimed, most = 0;
	struct area wanted;
	int thp;

	leave_no_movable_room(SOME);
	knob_set("defrag", "always");
	wanted = area_map(MOST_THPS);
	fallback = counter("thp_fault_fallback");
	for (thp = 0; thp < wanted.thps && most < ENOUGH_RECLAIMED &&
		      counter("thp_fault_fallback") == fallback; thp++) {
		reclaimed = counter("pgsteal_direct");
		touch(area_thp(&wanted, thp));
		reclaimed = counter("pgsteal_direct") - reclaimed;
		if (reclaimed > most)
			most = reclaimed;
	}
	expect(most >= ENOUGH_RECLAIMED,
	       "only %ld pages reclaimed by any of %d requests", most, thp);
}

/*
 * kswapd leaves a node alone where it has found nothing to reclaim 16 times in a row,
 * as happens while memory is filled slowly, until somebody else finds something there.
 * With cgroup v1, which has no memory.reclaim, this does nothing.
 */
static void encourage_kswapd(void)
{
	int times;

	for (times = 0; times < MOST_TIMES && zoneinfo("node_unreclaimable:");
	     times++)
		cgroup_write("memory.reclaim", "64K");
}

/*
 * kswapd does not rest before, however much is free. Whoever needs a page may take it
 * from that room at once, so what has been reclaimed counts as well. Requests that come
 * within a jiffy share one look at the room, which another's request may have had: ask
 * once more. Not all the time, as requests wake kswapd for other reasons, too.
 */
static void kswapd_makes_movable_room(void)
{
	long room, runs, before, reclaimed, blocks, made;
	int asked;

	leave_no_movable_room(SOME);
	encourage_kswapd();
	/* One may be where huge pages do not come from. */
	blocks = in_large_buddies();
	runs = counter("pageoutrun");
	before = counter("pgsteal_kswapd");
	for (asked = 0; asked < MOST_ASKED; asked++) {
		double end = now() + patience(ROOM_WITHIN);

		ask_for_thps(thps_beyond(8));
		do {
			reclaimed = counter("pgsteal_kswapd") - before;
			made = in_large_buddies() - blocks;
			room = movable_free() + (made > 0 ? made : 0);
			if ((reclaimed > 0 && room >= ENOUGH_ROOM) ||
			    reclaimed * (long)PAGE_SIZE >= ENOUGH_ROOM - ROOM_LEFT)
				return;
			usleep(100000);
		} while (now() < end);
	}
	fail("kswapd rests with %ld KB for movable pages: %ld runs, %ld pages reclaimed, %ld MB free, %ld zones of nodes given up",
	     room / (long)KB, counter("pageoutrun") - runs, reclaimed,
	     meminfo("MemFree") / (long)MB,
	     zoneinfo("node_unreclaimable:") / PAGE_SIZE);
}

/*
 * Where enough is free, and only room for movable pages is missing, a huge page is
 * not worth what memory.low protects. Small requests of others may take some of it.
 */
static void spares_protected_memory(void)
{
	struct area wanted;
	long taken;
	int thp, failed = 0;

	if (cgroup_is_v1())
		skip("cgroup v1 has no memory.low");
	wanted = area_map(MOST_THPS);
	madvise(wanted.base, area_size(&wanted), MADV_NOHUGEPAGE);
	for (thp = 0; thp < wanted.thps; thp++)
		touch(area_thp(&wanted, thp));
	madvise(wanted.base, area_size(&wanted), MADV_HUGEPAGE);
	/* Or requests find what others have cached, which nothing protects. */
	file_set("/proc/sys/vm/drop_caches", "3");
	leave_no_movable_room(SOME);
	cgroup_set("memory.low", "max");
	taken = cgroup_event("memory.stat", "pgsteal");
	/* Unlike a fault, this does not go on with a small page. */
	for (thp = 0; thp < wanted.thps && failed < ENOUGH_FAILED; thp++)
		failed += madvise(area_thp(&wanted, thp), THP_SIZE,
				  MADV_COLLAPSE) && errno == ENOMEM;
	taken = cgroup_event("memory.stat", "pgsteal") - taken;
	note("%d of %d requests failed, %ld pages taken", failed, thp, taken);
	expect(failed, "no request fails");
	expect(taken < MOST_TAKEN, "%ld protected pages taken", taken);
}

/*
 * With more than an eighth of memory free elsewhere, the next page is likely to be
 * elsewhere, too.
 */
static void gives_up_on_movable_room(void)
{
	long reclaimed = leave_no_movable_room(1024 * MB);

	encourage_kswapd();
	ask_for_thps(thps_beyond(8));
	sleep(ROOM_WITHIN);
	reclaimed = counter("pgsteal_kswapd") - reclaimed;
	expect(reclaimed < ENOUGH_RECLAIMED, "kswapd reclaims %ld pages more",
	       reclaimed);
}

#define SETTINGS	.seconds = SECONDS, .before = settings_save,		\
			.after = settings_restore

static const struct test tests[] = {
	TEST("defrag.values", values, SETTINGS),
	TEST("defrag.refused_when_small", refused_when_small, SETTINGS),
	TEST("defrag.blocks_counted", blocks_counted, SETTINGS),
	TEST("defrag.keeps_blocks", keeps_blocks, SETTINGS),
	TEST("defrag.made_of_sparse", made_of_sparse, SETTINGS),
	TEST("defrag.rests_when_useless", rests_when_useless, SETTINGS),
	TEST("defrag.kcompactd_defers_nobody", kcompactd_defers_nobody, SETTINGS),
	TEST("defrag.mixes_when_off", mixes_when_off, SETTINGS),
	TEST("defrag.mixes_nothing", mixes_nothing, SETTINGS),
	TEST("defrag.loses_nothing", loses_nothing, SETTINGS),
	TEST("defrag.mixes_before_oom", mixes_before_oom, SETTINGS),
	TEST("defrag.atomic_gets_memory", atomic_gets_memory, SETTINGS),
	TEST("defrag.rather_fails", rather_fails, SETTINGS),
	TEST("defrag.reclaims_no_more", reclaims_no_more, SETTINGS),
	TEST("defrag.ignores_hints", ignores_hints, SETTINGS),
	TEST("defrag.makes_movable_room", makes_movable_room, SETTINGS),
	TEST("defrag.kswapd_makes_movable_room", kswapd_makes_movable_room,
	     SETTINGS),
	TEST("defrag.spares_protected_memory", spares_protected_memory,
	     SETTINGS),
	TEST("defrag.gives_up_on_movable_room", gives_up_on_movable_room,
	     SETTINGS),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
