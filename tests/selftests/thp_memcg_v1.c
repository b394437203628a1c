// SPDX-License-Identifier: GPL-2.0
/*
 * cgroup v1: a huge page can change its owner, and swap forgets the owner
 * before the page is freed. Both must take the page off its queue. And it tells
 * programs how hard reclaim is (memory.pressure_level).
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "thp_mapper.h"
#include "thp_util.h"

#define THPS		20
#define PATH_SIZE	128
#define MEMSW		"memory.memsw.usage_in_bytes"

static char top[PATH_SIZE];

/* Finds the mount point of the v1 memory controller, if there is one. */
static bool find_mount(void)
{
	char line[512], where[PATH_SIZE], options[256];
	FILE *mounts = fopen("/proc/mounts", "re");
	bool found = false;

	while (mounts && !found && fgets(line, sizeof(line), mounts))
		found = sscanf(line, "%*s %127s cgroup %255s", where,
			       options) == 2 && strstr(options, "memory");
	if (mounts)
		fclose(mounts);
	if (found)
		strcpy(top, where);
	return found;
}

/* Mounts it in a private mount namespace, so nothing is left behind. */
static void need_v1(void)
{
	if (*top || find_mount())
		return;
	expect(!unshare(CLONE_NEWNS) &&
	       !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL),
	       "no mount namespace: %s", strerror(errno));
	if (mount("cgroup", "/tmp", "cgroup", 0, "memory"))
		skip("no cgroup v1 memory controller (%s)", strerror(errno));
	strcpy(top, "/tmp");
}

static const char *path(const char *name, const char *file)
{
	static char text[2 * PATH_SIZE];

	snprintf(text, sizeof(text), "%s/kselftest-thp-%s/%s", top, name, file);
	return text;
}

static void set(const char *name, const char *file, const char *value)
{
	int error = file_write(path(name, file), value);

	expect(!error, "%s does not take %s: %s", path(name, file), value,
	       strerror(-error));
}

static void make(const char *name)
{
	need_v1();
	rmdir(path(name, ""));
	expect(!mkdir(path(name, ""), 0755), "mkdir %s: %s", path(name, ""),
	       strerror(errno));
}

static void enter(const char *name)
{
	set(name, "cgroup.procs", "0");
}

static void leave(const char *name)
{
	char file[2 * PATH_SIZE];

	snprintf(file, sizeof(file), "%s/cgroup.procs", top);
	file_write(file, "0");
	rmdir(path(name, ""));
}

/* Returns -1 if there is no such file. */
static long bytes(const char *name, const char *file)
{
	char text[32];

	if (file_read(path(name, file), text, sizeof(text)))
		return -1;
	return atol(text);
}

static void expect_count(const char *name, long want)
{
	long count = queue_count_at(path(name, ""));

	expect(count == want, "%s: %ld huge pages queued, not %ld", name,
	       count, want);
}

/* The shrinker's debugfs finds cgroups of version 2 only. */
static void scan_all(void)
{
	expect(!file_write("/proc/sys/vm/drop_caches", "2"),
	       "vm.drop_caches cannot be written");
}

/* A task takes its memory along, into the queue of its new cgroup. */
static void charge_moved(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	make("from");
	make("to");
	set("to", "memory.move_charge_at_immigrate", "1");
	enter("from");
	area = area_alloc(THPS, SPARSE);
	expect_count("from", THPS);
	enter("to");
	expect_count("from", 0);
	expect_count("to", THPS);
	expect_whole(&area, "moved");
	scan_all();
	expect_split(&area);
	expect_count("to", 0);
	leave("from");
	leave("to");
}

/* Found in use in one cgroup, rescanned in the other. */
static void charge_of_used_moved(void)
{
	struct area area;

	set_threshold(511);
	make("from");
	make("to");
	set("to", "memory.move_charge_at_immigrate", "1");
	enter("from");
	area = area_alloc(THPS, SPARSE);
	scan_all();
	expect_count("from", 0);
	enter("to");
	set_threshold(USUAL_THRESHOLD);
	expect_count("from", 0);
	expect_count("to", THPS);
	scan_all();
	expect_split(&area);
	leave("from");
	leave("to");
}

/* A page that is swapped out whole is freed after its cgroup was forgotten. */
static void swapped_out(void)
{
	long whole = counter("thp_swpout");
	struct area area;
	double end;

	need_swap();
	make("swap");
	enter("swap");
	area = area_alloc(THPS, THP_PAGES);
	expect_count("swap", THPS);
	/* Some pages have to go; the kernel chooses which. */
	set("swap", "memory.limit_in_bytes", "20M");
	expect(counter("thp_swpout") > whole, "no huge page was swapped out");
	area_verify(&area);
	area_free(&area);
	/* This makes those due again that were found in use meanwhile. */
	set_threshold(USUAL_THRESHOLD);
	/* Those that a disk is still writing are freed afterwards. */
	for (end = now() + 10; queue_count_at(path("swap", "")) && now() < end;)
		usleep(100000);
	expect_count("swap", 0);
	leave("swap");
}

static void expect_charged_once(const char *name, const char *when)
{
	long twice = bytes(name, MEMSW) - bytes(name, "memory.usage_in_bytes");

	expect(twice < (long)THP_SIZE / 2, "%s, %ld kB are charged twice",
	       when, twice / (long)KB);
}

/* Memory and swap have one limit there, and huge pages come back whole. */
static void enter_with_swap(const char *name)
{
	knob_set("swapin_enabled", "always");
	set_threshold(511);
	make(name);
	enter(name);
	if (bytes(name, MEMSW) >= 0)
		return;
	leave(name);
	skip("no limit of memory and swap: swapaccount=0");
}

/* What is in memory and in swap counts once. */
static void swapped_in(void)
{
	double end = now() + 10;
	struct area area;

	need_swap();
	enter_with_swap("in");
	area = area_alloc(2, THP_PAGES);
	area_pageout(&area);
	/* What a disk has written leaves the swap cache only then. */
	file_write(path("in", "memory.force_empty"), "0");
	expect(smaps_kb("Swap", area.base, area_size(&area)) ==
	       2 * THP_SIZE / KB &&
	       bytes("in", "memory.usage_in_bytes") < (long)THP_SIZE,
	       "it is not in swap");
	expect(!madvise(area.base, area_size(&area), MADV_WILLNEED),
	       "MADV_WILLNEED: %s", strerror(errno));
	while (bytes("in", "memory.usage_in_bytes") < 2 * (long)THP_SIZE) {
		expect(now() < end, "it is not read");
		usleep(10000);
	}
	expect_charged_once("in", "when it was read");
	area_verify(&area);
	expect_whole(&area, "after it was read");
	expect_charged_once("in", "when it is mapped");
	leave("in");
}

/* What could not be read as a whole is in swap still, and its owner pays for it. */
static void unread_is_charged(void)
{
	struct area area;
	long kb;

	need_read_errors();
	enter_with_swap("unread");
	area = area_alloc(1, THP_PAGES);
	area_pageout(&area);
	mapper_fail_page(swap_slot_of(area_page(&area, 37)));
	(void)*(volatile char *)area.base;
	kb = smaps_kb("Swap", area.base, THP_SIZE);
	expect(kb > (long)(THP_SIZE / KB) / 2, "%ld kB are in swap", kb);
	expect(bytes("unread", MEMSW) >= kb * (long)KB,
	       "%ld kB are in swap, and %ld are charged", kb,
	       bytes("unread", MEMSW) / (long)KB);
	leave("unread");
}

/* --- how hard reclaim is --- */

#define FAULTS		64

/* Returns a descriptor that can be read as soon as reclaim has nearly failed. */
static int watch_pressure(const char *name)
{
	int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	int level = open(path(name, "memory.pressure_level"), O_RDONLY | O_CLOEXEC);
	char text[64];

	expect(event >= 0 && level >= 0, "no memory.pressure_level: %s",
	       strerror(errno));
	snprintf(text, sizeof(text), "%d %d critical", event, level);
	set(name, "cgroup.event_control", text);
	close(level);
	return event;
}

/* What the shrinker gives is enough for each fault, and reclaim knows that. */
static void pressure_not_critical(void)
{
	char *more, limit[32];
	struct area area;
	eventfd_t events;
	int event, i;

	set_threshold(USUAL_THRESHOLD);
	make("pressure");
	enter("pressure");
	area = area_alloc(THPS, SPARSE);
	more = mmap(NULL, FAULTS * PAGE_SIZE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(more != MAP_FAILED, "mmap: %s", strerror(errno));
	event = watch_pressure("pressure");
	expect(file_read(path("pressure", "memory.usage_in_bytes"), limit,
			 sizeof(limit)) >= 0, "no memory.usage_in_bytes");
	set("pressure", "memory.limit_in_bytes", limit);
	for (i = 0; i < FAULTS; i++)
		more[i * PAGE_SIZE] = 1;
	expect(area_whole(&area) < THPS, "no huge page is split");
	/* A worker of the kernel tells it. */
	sleep(1);
	expect(eventfd_read(event, &events), "critical pressure, with %d of %d huge pages whole",
	       area_whole(&area), THPS);
	area_verify(&area);
	close(event);
	leave("pressure");
}

static const struct test tests[] = {
	TEST("memcg_v1.charge_moved", charge_moved),
	TEST("memcg_v1.charge_of_used_moved", charge_of_used_moved),
	TEST("memcg_v1.pressure_not_critical", pressure_not_critical),
	TEST("memcg_v1.swapped_out", swapped_out, .swap = true, .seconds = 60),
	TEST("memcg_v1.swapped_in", swapped_in, .swap = true),
	TEST("memcg_v1.unread_is_charged", unread_is_charged, .disk = true,
	     .before = mapper_on, .after = mapper_off),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
