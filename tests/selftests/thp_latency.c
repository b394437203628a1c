// SPDX-License-Identifier: GPL-2.0
/*
 * A long scan must not block the list of shrinkers: mounting a file system adds
 * a shrinker to it, and waits for whoever is walking the list.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thp_util.h"

#define THPS		96
/* Nobody waits for a scan, so there is time for many mounts. */
#define MOUNTS_WANTED	(THPS / 8)
/* The mounts may get too little of a busy processor: three of five rounds. */
#define GOOD_ROUNDS	3
#define BAD_ROUNDS	3
/* Each pass gives back at least one huge page. */
#define MOST_PASSES	2000

struct work {
	int ready[2];
	bool scanning;
};

static void set_scanning(struct work *work, bool scanning)
{
	__atomic_store_n(&work->scanning, scanning, __ATOMIC_SEQ_CST);
}

/* Scans until all huge pages are given back; signals its start. */
static void scan_all(void *arg)
{
	struct work *work = arg;
	struct area area = area_alloc(THPS, SPARSE);
	int passes;

	tell(work->ready[1]);
	for (passes = 0; area_whole(&area); passes++) {
		set_scanning(work, true);
		/* Unlike debugfs, this walks the list of shrinkers. */
		expect(!file_write("/proc/sys/vm/drop_caches", "2"),
		       "vm.drop_caches cannot be written");
		set_scanning(work, false);
		expect(passes < MOST_PASSES, "%d huge pages are not given back",
		       area_whole(&area));
	}
	area_verify(&area);
}

/* Mount and umount both change the list; umount keeps it from growing. */
static double mount_once(const char *where)
{
	double began = now();

	expect(!mount("none", where, "tmpfs", 0, NULL), "mount: %s",
	       strerror(errno));
	expect(!umount(where), "umount: %s", strerror(errno));
	return now() - began;
}

static bool running(pid_t helper)
{
	siginfo_t info = { 0 };

	expect(!waitid(P_PID, helper, &info, WEXITED | WNOHANG | WNOWAIT),
	       "waitid: %s", strerror(errno));
	return !info.si_pid;
}

static struct work *work_new(void)
{
	struct work *work = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	expect(work != MAP_FAILED && !pipe(work->ready), "no memory");
	return work;
}

/*
 * Mounts again and again, and returns how many mounts began while a pass of the
 * scan was running. If mounts wait for the scan, the first one ends with it.
 */
static int mounts_in_scan(void)
{
	struct work *work = work_new();
	pid_t helper = helper_start(scan_all, work);
	double longest = 0, took;
	int mounts = 0, all = 0;

	hear(work->ready[0]);
	for (; running(helper); all++) {
		mounts += __atomic_load_n(&work->scanning, __ATOMIC_SEQ_CST);
		took = mount_once("/tmp");
		longest = took > longest ? took : longest;
	}
	helper_join(helper);
	note("%d mounts began in the scan of %d huge pages, %d beside it; the longest took %.3f s",
	     mounts, THPS, all - mounts, longest);
	return mounts;
}

static void mount_during_scan(void)
{
	int good = 0, bad = 0, mounts;

	expect(!unshare(CLONE_NEWNS) &&
	       !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL),
	       "no mount namespace: %s", strerror(errno));
	set_threshold(USUAL_THRESHOLD);
	while (good < GOOD_ROUNDS) {
		mounts = mounts_in_scan();
		if (mounts >= MOUNTS_WANTED)
			good++;
		else
			bad++;
		expect(bad < BAD_ROUNDS,
		       "in %d of %d rounds few mounts began in the scan, %d at last, not %d",
		       bad, good + bad, mounts, MOUNTS_WANTED);
	}
}

static const struct test tests[] = {
	TEST("latency.mount_during_scan", mount_during_scan, .seconds = 120),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
