// SPDX-License-Identifier: GPL-2.0
/* The kernel's files: knobs, counters, cgroups, queues, devices, trace. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#include "thp_util.h"

#define THP_DIR		"/sys/kernel/mm/transparent_hugepage/"
#define CGROUP_ROOT	"/sys/fs/cgroup"
#define VALUE_SIZE	128
#define KHUGEPAGED_SETTLES	10.0	/* seconds */
#define KHUGEPAGED_UNSEEN_US	200000

int file_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int error = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		error = -errno;
	close(fd);
	return error;
}

/* Reads a whole file without its last newline; returns 0 or -errno. */
int file_read(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t got;

	if (fd < 0)
		return -errno;
	while ((got = read(fd, text + used, size - 1 - used)) > 0)
		used += got;
	close(fd);
	if (got < 0)
		return -errno;
	text[used] = '\0';
	if (used && text[used - 1] == '\n')
		text[used - 1] = '\0';
	return 0;
}

/* --- knobs --- */

/* The knobs a test may change, with the value that each test starts with. */
static struct knob {
	const char *name;
	const char *base;
	char saved[VALUE_SIZE];
} knobs[] = {
	/* Only the tests use MADV_HUGEPAGE, so only they get huge pages. */
	{ .name = "enabled", .base = "madvise" },
	{ .name = "defrag", .base = "madvise" },
	{ .name = "use_zero_page", .base = "1" },
	/* khugepaged stays out of the way, except where it is tested. */
	{ .name = "khugepaged/scan_sleep_millisecs", .base = "1000000000" },
	{ .name = "khugepaged/alloc_sleep_millisecs", .base = "1000" },
	{ .name = "khugepaged/pages_to_scan", .base = "4096" },
	{ .name = "khugepaged/max_ptes_none", .base = "511" },
	{ .name = "shrink_underused", .base = "1" },
	{ .name = "underused_max_ptes_none", .base = "khugepaged" },
	{ .name = "swapin_enabled", .base = "never" },
	{ .name = "../ksm/run", .base = "0" },
	{ .name = "../ksm/pages_to_scan", .base = "100" },
	{ .name = "../ksm/sleep_millisecs", .base = "20" },
	{ .name = "../ksm/use_zero_pages", .base = "0" },
	{ .name = "../hugepages/hugepages-2048kB/nr_overcommit_hugepages",
	  .base = "0" },
};

static const char *knob_path(const char *name)
{
	static char path[VALUE_SIZE];

	snprintf(path, sizeof(path), THP_DIR "%s", name);
	return path;
}

bool knob_exists(const char *name)
{
	return !access(knob_path(name), F_OK);
}

int knob_write(const char *name, const char *value)
{
	return file_write(knob_path(name), value);
}

void knob_read(const char *name, char *value, size_t size)
{
	int error = file_read(knob_path(name), value, size);

	expect(!error, "%s cannot be read: %s", name, strerror(-error));
}

void knob_set(const char *name, const char *value)
{
	int error = knob_write(name, value);

	expect(!error, "%s does not take %s: %s", name, value,
	       strerror(-error));
}

void knob_set_number(const char *name, long value)
{
	char text[VALUE_SIZE];

	snprintf(text, sizeof(text), "%ld", value);
	knob_set(name, text);
}

/* "always [madvise] never" means madvise. */
static void keep_choice(char *value)
{
	char *open = strchr(value, '['), *end = strchr(value, ']');

	if (!open || !end)
		return;
	*end = '\0';
	memmove(value, open + 1, end - open);
}

void knobs_save(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++) {
		struct knob *knob = &knobs[i];

		if (file_read(knob_path(knob->name), knob->saved, VALUE_SIZE))
			*knob->saved = '\0';
		keep_choice(knob->saved);
	}
}

/*
 * Writes only values that differ: a write to its sleep time wakes khugepaged
 * up, and it would collapse what a test has just split. A knob that this kernel
 * lacks is ignored, because most tests do not need it.
 */
static bool knob_put(const struct knob *knob, const char *value)
{
	char now[VALUE_SIZE];

	if (file_read(knob_path(knob->name), now, sizeof(now)))
		return false;
	keep_choice(now);
	if (!strcmp(now, value))
		return false;
	if (knob_write(knob->name, value))
		note("could not set %s to %s", knob->name, value);
	return true;
}

/* The state of khugepaged as ps shows it, or 0 if the thread is not visible. */
static char khugepaged_state(void)
{
	char path[VALUE_SIZE], text[4 * VALUE_SIZE], state = 0;
	glob_t found;
	size_t i;

	if (glob("/proc/[0-9]*", GLOB_NOSORT, NULL, &found))
		return 0;
	for (i = 0; i < found.gl_pathc && !state; i++) {
		snprintf(path, sizeof(path), "%s/stat", found.gl_pathv[i]);
		if (!file_read(path, text, sizeof(text)))
			sscanf(text, "%*d (khugepaged) %c", &state);
	}
	globfree(&found);
	return state;
}

/*
 * khugepaged makes one more round before a longer sleep time takes effect, and
 * may sleep for a moment during that round: wait until it is asleep twice in a
 * row. Where it is not visible, as in a PID namespace, wait for a fixed time.
 */
static void khugepaged_settle(void)
{
	double end = now() + KHUGEPAGED_SETTLES;
	int asleep = 0;

	while (asleep < 2) {
		char state = khugepaged_state();

		if (!state) {
			usleep(KHUGEPAGED_UNSEEN_US);
			return;
		}
		if (now() > end) {
			note("khugepaged does not go to sleep");
			return;
		}
		asleep = state == 'S' ? asleep + 1 : 0;
		if (asleep < 2)
			usleep(10000);
	}
}

/*
 * While its list of processes is empty, khugepaged ignores its sleep time: it
 * makes a round as soon as a process joins the list, and may collapse what a
 * test has just mapped by PTEs. A runner that has had a huge page stays on the
 * list for as long as it lives, and so do its children.
 */
void khugepaged_hold(void)
{
	char *memory = mmap(NULL, 2 * THP_SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || madvise(memory, 2 * THP_SIZE, MADV_HUGEPAGE)) {
		note("khugepaged may get in the way: %s", strerror(errno));
		return;
	}
	touch(memory + THP_SIZE);
	munmap(memory, 2 * THP_SIZE);
	khugepaged_settle();
}

void knobs_set_base(void)
{
	bool written = false;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++)
		written |= knob_put(&knobs[i], knobs[i].base);
	if (written)
		khugepaged_settle();
}

void knobs_restore(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++)
		if (*knobs[i].saved)
			knob_put(&knobs[i], knobs[i].saved);
}

/* Kernels without a threshold of their own use khugepaged's max_ptes_none. */
void set_threshold(long max_zero_pages)
{
	if (knob_exists("underused_max_ptes_none"))
		knob_set_number("underused_max_ptes_none", max_zero_pages);
	else
		knob_set_number("khugepaged/max_ptes_none", max_zero_pages);
}

/* --- counters --- */

/* The number after a key at the start of a line, or -1. */
static long number_of(const char *path, const char *key)
{
	size_t length = strlen(key);
	FILE *file = fopen(path, "re");
	char line[256];
	long value = -1;

	if (!file)
		return -1;
	while (value < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, length) && line[length] == ' ')
			value = strtol(line + length, NULL, 10);
	fclose(file);
	return value;
}

long counter(const char *name)
{
	return number_of("/proc/vmstat", name);
}

/* Folds the per-CPU parts of the nr_* states into what vmstat shows. */
void vmstat_refresh(void)
{
	expect(!file_write("/proc/sys/vm/stat_refresh", "1"),
	       "vm.stat_refresh cannot be written");
}

/*
 * Returns a state of vmstat with the parts of all CPUs, also when it is below
 * zero. vmstat shows such a state as 0; only the kernel log has its value, after
 * each refresh.
 */
static long state(const char *name)
{
	char line[VALUE_SIZE], below_zero[VALUE_SIZE];
	long value, found;
	int log = log_open();

	expect(log >= 0, "/dev/kmsg cannot be read: %s", strerror(errno));
	vmstat_refresh();
	value = counter(name);
	while (log_line(log, line, sizeof(line)))
		if (sscanf(line, "vmstat_refresh: %s %ld", below_zero,
			   &found) == 2 && !strcmp(below_zero, name))
			value = found;
	close(log);
	return value;
}

/* Reclaim elsewhere in the system isolates pages for short times. */
void expect_none_isolated(double seconds)
{
	double end = now() + seconds;
	long anon, file;

	do {
		anon = state("nr_isolated_anon");
		file = state("nr_isolated_file");
	} while ((anon || file) && now() < end && !usleep(100000));
	expect(!anon && !file,
	       "nr_isolated_anon stays at %ld, nr_isolated_file at %ld", anon,
	       file);
}

/* --- the cgroup of the running test --- */

static char cgroup[VALUE_SIZE];

/* cgroup v1 has a hierarchy for each controller, and other names for files. */
static const struct { const char *v2, *v1; } v1_names[] = {
	{ "memory.max", "memory.limit_in_bytes" },
	{ "memory.current", "memory.usage_in_bytes" },
};

bool cgroup_is_v1(void)
{
	return access(CGROUP_ROOT "/cgroup.controllers", F_OK);
}

static const char *cgroup_parent(void)
{
	return cgroup_is_v1() ? CGROUP_ROOT "/memory" : CGROUP_ROOT;
}

static const char *cgroup_path(const char *file)
{
	static char path[2 * VALUE_SIZE];
	size_t i;

	if (!*cgroup)
		skip("no memory controller in %s", cgroup_parent());
	for (i = 0; cgroup_is_v1() && i < ARRAY_SIZE(v1_names); i++)
		if (!strcmp(file, v1_names[i].v2))
			file = v1_names[i].v1;
	snprintf(path, sizeof(path), "%s/%s", cgroup, file);
	if (cgroup_is_v1() && !strncmp(file, "memory.", 7) &&
	    access(path, F_OK))
		skip("cgroup v1 has no %s", file);
	return path;
}

void cgroup_create(void)
{
	static int number;

	file_write(CGROUP_ROOT "/cgroup.subtree_control", "+memory");
	snprintf(cgroup, sizeof(cgroup), "%s/kselftest-thp-%d-%d",
		 cgroup_parent(), getpid(), ++number);
	if (mkdir(cgroup, 0755) || access(cgroup_path("memory.max"), F_OK)) {
		rmdir(cgroup);
		*cgroup = '\0';
	}
}

/* Does what cgroup.kill does on v2. */
static void cgroup_kill_v1(void)
{
	FILE *file = fopen(cgroup_path("cgroup.procs"), "re");
	int pid;

	while (file && fscanf(file, "%d", &pid) == 1)
		kill(pid, SIGKILL);
	if (file)
		fclose(file);
}

/* Also removes the cgroups one level below; -EBUSY while processes are left. */
int cgroup_rmdir(const char *name)
{
	char path[3 * VALUE_SIZE];
	glob_t below;
	size_t i;

	snprintf(path, sizeof(path), "%s/*/", cgroup_path(name));
	if (!glob(path, 0, NULL, &below)) {
		for (i = 0; i < below.gl_pathc; i++)
			rmdir(below.gl_pathv[i]);
		globfree(&below);
	}
	return rmdir(cgroup_path(name)) ? -errno : 0;
}

void cgroup_remove(void)
{
	int tries;

	if (!*cgroup)
		return;
	if (cgroup_is_v1())
		cgroup_kill_v1();
	else
		file_write(cgroup_path("cgroup.kill"), "1");
	for (tries = 0; cgroup_rmdir("") == -EBUSY && tries < 100; tries++)
		usleep(20000);
	*cgroup = '\0';
}

void cgroup_enter(void)
{
	if (*cgroup)
		expect(!file_write(cgroup_path("cgroup.procs"), "0"),
		       "cannot move to cgroup %s", cgroup);
}

int cgroup_write(const char *file, const char *value)
{
	return file_write(cgroup_path(file), value);
}

void cgroup_set(const char *file, const char *value)
{
	int error = cgroup_write(file, value);

	expect(!error, "%s does not take %s: %s", file, value,
	       strerror(-error));
}

long cgroup_number(const char *file)
{
	char value[VALUE_SIZE];
	int error = file_read(cgroup_path(file), value, sizeof(value));

	expect(!error, "%s cannot be read: %s", file, strerror(-error));
	return strtol(value, NULL, 10);
}

long cgroup_event(const char *file, const char *key)
{
	return number_of(cgroup_path(file), key);
}

/*
 * Creates a cgroup with the memory controller below that of the test. The
 * kernel allows processes in leaves only, so the test has to move into one of
 * these.
 */
void cgroup_make(const char *name)
{
	expect(!mkdir(cgroup_path(name), 0755), "mkdir %s: %s",
	       cgroup_path(name), strerror(errno));
}

/* Moves the calling process; its memory stays charged to the old cgroup. */
void cgroup_go(const char *name)
{
	char file[VALUE_SIZE];

	snprintf(file, sizeof(file), "%s/cgroup.procs", name);
	cgroup_set(file, "0");
	if (!cgroup_is_v1())
		cgroup_set("cgroup.subtree_control", "+memory");
}

/* --- deferred split queues --- */

static bool shrinker_path(const char *file, char *path, size_t size)
{
	glob_t found;
	bool exists;

	exists = !glob("/sys/kernel/debug/shrinker/thp-deferred_split-*", 0,
		       NULL, &found);
	if (exists)
		snprintf(path, size, "%s/%s", found.gl_pathv[0], file);
	globfree(&found);
	return exists;
}

static void need_shrinker(const char *file, char *path, size_t size)
{
	if (!shrinker_path(file, path, size))
		skip("no shrinker debugfs (CONFIG_SHRINKER_DEBUG)");
}

static unsigned long inode_of(const char *path)
{
	struct stat status;

	expect(!stat(path, &status), "%s: %s", path, strerror(errno));
	return status.st_ino;
}

/* Runs f for every NUMA node. */
static void visit_nodes(void (*f)(int node, void *arg), void *arg)
{
	DIR *dir = opendir("/sys/devices/system/node");
	struct dirent *entry;
	int node;

	if (!dir) {
		f(0, arg);
		return;
	}
	while ((entry = readdir(dir)))
		if (sscanf(entry->d_name, "node%d", &node) == 1)
			f(node, arg);
	closedir(dir);
}

struct queue {
	const char *path;
	unsigned long inode;
	long value;
};

/* The number of huge pages queued in a cgroup, on all nodes. */
long queue_count_at(const char *owner_path)
{
	unsigned long inode = inode_of(owner_path), owner;
	char path[2 * VALUE_SIZE], line[1024];
	long total = 0;
	FILE *file;

	need_shrinker("count", path, sizeof(path));
	file = fopen(path, "re");
	expect(file, "%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		char *at = line;

		owner = strtoul(at, &at, 10);
		while (owner == inode && *at && *at != '\n')
			total += strtol(at, &at, 10);
	}
	fclose(file);
	return total;
}

long queue_count_in(const char *name)
{
	return queue_count_at(cgroup_path(name));
}

long queue_count(void)
{
	return queue_count_in("");
}

void expect_queued(long want)
{
	long queued = queue_count();

	expect(queued == want, "%ld huge pages queued, not %ld", queued, want);
}

static void need_scan(char *path, size_t size)
{
	if (cgroup_is_v1())
		skip("the shrinker's debugfs finds cgroups of v2 only");
	need_shrinker("scan", path, size);
}

static void scan_node(int node, void *arg)
{
	struct queue *queue = arg;
	char text[VALUE_SIZE];
	int error;

	snprintf(text, sizeof(text), "%lu %d %ld", queue->inode, node,
		 queue->value);
	error = file_write(queue->path, text);
	expect(!error, "scan of node %d: %s", node, strerror(-error));
}

void queue_scan_node(int node, long nr)
{
	char path[2 * VALUE_SIZE];
	struct queue queue = { path, inode_of(cgroup_path("")), nr };

	need_scan(path, sizeof(path));
	scan_node(node, &queue);
}

void queue_scan_in(const char *name, long nr)
{
	char path[2 * VALUE_SIZE];
	struct queue queue = { path, inode_of(cgroup_path(name)), nr };

	need_scan(path, sizeof(path));
	visit_nodes(scan_node, &queue);
}

void queue_scan(long nr)
{
	queue_scan_in("", nr);
}

/* Scans the whole queue at once; memory pressure would do it step by step. */
void trigger(void)
{
	char path[2 * VALUE_SIZE];

	if (!cgroup_is_v1() && shrinker_path("scan", path, sizeof(path)))
		queue_scan(DEFERRED_SCAN_ALL);
	else
		expect(!file_write("/proc/sys/vm/drop_caches", "2"),
		       "vm.drop_caches cannot be written");
}

/*
 * The kernel looks at a huge page that it could not split, or found in use, only
 * ten seconds later, or as soon as somebody has written a setting.
 */
void end_wait(void)
{
	char value[VALUE_SIZE];

	knob_read("shrink_underused", value, sizeof(value));
	knob_set("shrink_underused", value);
}

void split_range(pid_t pid, const void *start, size_t length)
{
	char text[VALUE_SIZE];
	int error;

	snprintf(text, sizeof(text), "%d,0x%lx,0x%lx", pid,
		 (unsigned long)start, (unsigned long)start + length);
	error = file_write("/sys/kernel/debug/split_huge_pages", text);
	if (error == -ENOENT)
		skip("no split_huge_pages in debugfs");
	expect(!error, "split_huge_pages does not take %s: %s", text,
	       strerror(-error));
}

/* The memory is not really bad: let the kernel use it again. */
void poison_clear(unsigned long pfn)
{
	char text[32];

	if (access("/sys/kernel/debug/hwpoison/unpoison-pfn", F_OK) &&
	    system("modprobe -q hwpoison-inject 2>/dev/null"))
		note("no hwpoison-inject: one page stays out of use");
	snprintf(text, sizeof(text), "0x%lx", pfn);
	file_write("/sys/kernel/debug/hwpoison/unpoison-pfn", text);
}

/* --- block devices in memory, and the swap device that THP_TEST_SWAP names --- */

#define DISK_SIZE	(1024 * MB)
#define SWAP_PRIORITY	32767

static struct zram {
	int number;
	char device[32];
} swap = { .number = -1 }, disk = { .number = -1 };

static bool zram_set(const struct zram *zram, const char *file,
		     const char *value)
{
	char path[VALUE_SIZE];

	snprintf(path, sizeof(path), "/sys/block/zram%d/%s", zram->number,
		 file);
	return !file_write(path, value);
}

static void zram_remove(struct zram *zram)
{
	char text[32];

	if (zram->number < 0)
		return;
	zram_set(zram, "reset", "1");
	snprintf(text, sizeof(text), "%d", zram->number);
	file_write("/sys/class/zram-control/hot_remove", text);
	zram->number = -1;
}

static bool zram_add(struct zram *zram, size_t size)
{
	char text[32];

	if (access("/sys/class/zram-control", F_OK) &&
	    system("modprobe -q zram num_devices=0 2>/dev/null"))
		return false;
	if (file_read("/sys/class/zram-control/hot_add", text, sizeof(text)))
		return false;
	zram->number = atoi(text);
	snprintf(zram->device, sizeof(zram->device), "/dev/zram%d",
		 zram->number);
	snprintf(text, sizeof(text), "%zu", size);
	if (zram_set(zram, "disksize", text))
		return true;
	zram_remove(zram);
	return false;
}

/* The header that mkswap writes, version 1 and without bad pages. */
bool swap_format(const char *device)
{
	unsigned int header[PAGE_SIZE / sizeof(int)] = { 0 };
	int fd = open(device, O_WRONLY | O_CLOEXEC);
	bool done;

	header[1024 / 4] = 1;
	header[1024 / 4 + 1] = SWAP_SIZE / PAGE_SIZE - 1;
	memcpy((char *)header + PAGE_SIZE - 10, "SWAPSPACE2", 10);
	done = fd >= 0 && write(fd, header, PAGE_SIZE) == PAGE_SIZE &&
	       !fsync(fd);
	if (fd >= 0)
		close(fd);
	return done;
}

static const char *swap_device(void)
{
	const char *named = getenv("THP_TEST_SWAP");

	return named ? named : swap.device;
}

/* A test may use these itself, to turn its swap off and on again. */
bool swap_start(void)
{
	return !swapon(swap_device(), SWAP_FLAG_PREFER | SWAP_PRIORITY);
}

bool swap_stop(void)
{
	return !swapoff(swap_device());
}

/*
 * The runner calls these outside of a test, so the devices are removed however
 * it ends. The test itself checks that they are there.
 */
void swap_on(void)
{
	if (!getenv("THP_TEST_SWAP") && !zram_add(&swap, SWAP_SIZE))
		return;
	if (!swap_format(swap_device()) || !swap_start())
		zram_remove(&swap);
}

void swap_off(void)
{
	if (*swap_device())
		swap_stop();
	zram_remove(&swap);
}

void need_swap(void)
{
	char swaps[1024];

	expect(!file_read("/proc/swaps", swaps, sizeof(swaps)), "no swap");
	if (!*swap_device() || !strstr(swaps, swap_device()))
		skip("no swap on zram (CONFIG_ZRAM)");
}

void disk_on(void)
{
	zram_add(&disk, DISK_SIZE);
}

void disk_off(void)
{
	zram_remove(&disk);
}

/* NULL if there is none. */
const char *disk_device(void)
{
	return disk.number < 0 ? NULL : disk.device;
}

/*
 * Adds page cache to the test's cgroup that is used only once: reclaim drops
 * that first, at no cost.
 */
void cache_fill(size_t size)
{
	static char buffer[64 * KB];
	static size_t end;
	static int fd = -1;
	ssize_t got;

	if (disk.number < 0)
		skip("no disk in zram (CONFIG_ZRAM)");
	/* Kept open: the last close of a disk empties its cache. */
	if (fd < 0)
		fd = open(disk.device, O_RDONLY | O_CLOEXEC);
	expect(fd >= 0, "%s: %s", disk.device, strerror(errno));
	for (size += end; end < size; end += got) {
		got = pread(fd, buffer, sizeof(buffer), end);
		expect(got > 0, "%s ends at %zu", disk.device, end);
	}
}

/* --- the kernel's trace --- */

#define TRACE		"/sys/kernel/tracing/"
#define TRACE_INSTANCE	TRACE "instances/kselftest-thp/"

/*
 * A separate instance leaves all other traces alone. The runner removes it
 * after the test, and its events with it.
 *
 * The names of processes and set_event_pid would switch on events of the scheduler
 * as well. Both CPUs run through those all the time, and QEMU's emulation may stay
 * for ever at a breakpoint that is there while the kernel patches its text.
 */
void trace_on(const char *event, bool this_process)
{
	static const char names[] = TRACE "options/record-cmd";
	char path[2 * VALUE_SIZE], filter[32], recorded[8] = "";
	int error;

	mount("tracefs", TRACE, "tracefs", 0, NULL);
	if (access(TRACE "events", F_OK))
		skip("no tracefs (CONFIG_EVENT_TRACING)");
	/* A new instance takes over the option */
	file_read(names, recorded, sizeof(recorded));
	file_write(names, "0");
	error = mkdir(TRACE_INSTANCE, 0700) ? errno : 0;
	file_write(names, recorded);
	expect(!error || error == EEXIST, "mkdir %s: %s", TRACE_INSTANCE,
	       strerror(error));
	snprintf(filter, sizeof(filter), "common_pid == %d", getpid());
	if (this_process)
		trace_filter(event, filter);
	snprintf(path, sizeof(path), TRACE_INSTANCE "events/%s/enable", event);
	expect(!file_write(path, "1"), "no event %s", event);
}

/* Keeps those out that would push everything else out of the trace. */
void trace_filter(const char *event, const char *filter)
{
	char path[2 * VALUE_SIZE];

	snprintf(path, sizeof(path), TRACE_INSTANCE "events/%s/filter", event);
	expect(!file_write(path, filter), "%s does not take the filter %s",
	       event, filter);
}

void trace_clear(void)
{
	expect(!file_write(TRACE_INSTANCE "trace", "0"),
	       "the trace cannot be cleared");
}

/* For who reads the trace more than once. */
void trace_stop(void)
{
	expect(!file_write(TRACE_INSTANCE "tracing_on", "0"),
	       "the trace cannot be stopped");
}

/* Called outside of a test, like swap_off(). */
void trace_off(void)
{
	rmdir(TRACE_INSTANCE);
}

/* The number of lines in the trace that contain both texts. */
int trace_lines(const char *text, const char *more)
{
	FILE *file = fopen(TRACE_INSTANCE "trace", "re");
	char line[512];
	int found = 0;

	expect(file, "the trace cannot be read: %s", strerror(errno));
	while (fgets(line, sizeof(line), file))
		found += *line != '#' && strstr(line, text) &&
			 strstr(line, more);
	fclose(file);
	return found;
}

/* From now on, the trace says of each event who led to it. */
void trace_stacks(void)
{
	expect(!file_write(TRACE_INSTANCE "options/stacktrace", "1"),
	       "no stacks in the trace (CONFIG_STACKTRACE)");
}

static bool has_any(const char *line, const char *const *texts)
{
	while (*texts && !strstr(line, *texts))
		texts++;
	return *texts;
}

/*
 * The number of events that contain a text, by whether a function with such a name led
 * to them. The trace is read once: more events may come at any time.
 */
struct trace_events trace_events(const char *text, const char *const *names)
{
	FILE *file = fopen(TRACE_INSTANCE "trace", "re");
	struct trace_events found = { 0, 0 };
	bool counted = false;
	char line[512];

	expect(file, "the trace cannot be read: %s", strerror(errno));
	while (fgets(line, sizeof(line), file)) {
		if (*line == '#' || strstr(line, "<stack trace>"))
			continue;
		if (strncmp(line, " => ", 4)) {
			counted = strstr(line, text);
			found.by_others += counted;
		} else if (counted && has_any(line, names)) {
			counted = false;
			found.by_others--;
			found.by_names++;
		}
	}
	fclose(file);
	return found;
}
