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
/* A mount may wait for this part of the whole scan: one in SHARE. */
#define SHARE		8
/* Extra seconds for a mount on a host that is otherwise busy. */
#define JITTER		0.05
#define MOUNT_EVERY_US	2000
#define ROUNDS		4
/* Each pass gives back at least one huge page, or gives way to a mount. */
#define MOST_PASSES	2000

struct work {
	int ready[2];
	double took;
};

/* Scans until all huge pages are given back; signals its start. */
static void scan_all(void *arg)
{
	struct work *work = arg;
	struct area area = area_alloc(THPS, SPARSE);
	double began = now();
	int passes;

	tell(work->ready[1]);
	for (passes = 0; area_whole(&area); passes++) {
		/* Unlike debugfs, this walks the list of shrinkers. */
		expect(!file_write("/proc/sys/vm/drop_caches", "2"),
		       "vm.drop_caches cannot be written");
		expect(passes < MOST_PASSES, "%d huge pages are not given back",
		       area_whole(&area));
	}
	work->took = now() - began;
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

/* Mounts repeatedly during a scan; returns the time of the longest mount. */
static double longest_mount(double alone)
{
	struct work *work = work_new();
	pid_t helper = helper_start(scan_all, work);
	double longest = 0, took;
	int mounts = 0;

	hear(work->ready[0]);
	while (running(helper)) {
		took = mount_once("/tmp");
		longest = took > longest ? took : longest;
		mounts++;
		usleep(MOUNT_EVERY_US);
	}
	helper_join(helper);
	note("scan of %d huge pages: %.3f s alone, %.3f s beside %d mounts; longest mount %.3f s",
	     THPS, alone, work->took, mounts, longest);
	expect(mounts > 1, "no mount during the whole scan");
	return longest;
}

static void mount_during_scan(void)
{
	struct work *alone = work_new();
	double limit, longest;
	int round;

	expect(!unshare(CLONE_NEWNS) &&
	       !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL),
	       "no mount namespace: %s", strerror(errno));
	set_threshold(USUAL_THRESHOLD);
	helper_join(helper_start(scan_all, alone));
	limit = alone->took / SHARE + JITTER;
	/* A scan that never gives way is always slow, a busy host is not. */
	for (round = 0; round < ROUNDS; round++) {
		longest = longest_mount(alone->took);
		if (longest < limit)
			return;
	}
	fail("a mount took %.3f s, the whole scan %.3f s", longest, alone->took);
}

static const struct test tests[] = {
	TEST("latency.mount_during_scan", mount_during_scan, .seconds = 120),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
