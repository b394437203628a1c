// SPDX-License-Identifier: GPL-2.0
/* What the kernel shows and takes in files: knobs, counters, cgroups, queues. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/swap.h>
#include <unistd.h>

#include "thp_util.h"

#define THP_DIR		"/sys/kernel/mm/transparent_hugepage/"
#define CGROUP_ROOT	"/sys/fs/cgroup"
#define VALUE_SIZE	128

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

/* The whole file as a string without its last newline, or -errno. */
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

/* Everything a test may change, with the value that each test begins with. */
static struct knob {
	const char *name;
	const char *base;
	char saved[VALUE_SIZE];
} knobs[] = {
	/* Only what asks for huge pages gets them: the tests, nothing else. */
	{ .name = "enabled", .base = "madvise" },
	{ .name = "defrag", .base = "madvise" },
	/* khugepaged stays out of the way, except where it is tested. */
	{ .name = "khugepaged/scan_sleep_millisecs", .base = "1000000000" },
	{ .name = "khugepaged/alloc_sleep_millisecs", .base = "1000" },
	{ .name = "khugepaged/pages_to_scan", .base = "4096" },
	{ .name = "khugepaged/max_ptes_none", .base = "511" },
	{ .name = "shrink_underused", .base = "1" },
	{ .name = "underused_max_ptes_none", .base = "khugepaged" },
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

/* The value before the first test, empty where there is no such knob. */
const char *knob_saved(const char *name)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++)
		if (!strcmp(knobs[i].name, name))
			return knobs[i].saved;
	return "";
}

/*
 * Writes only what differs: khugepaged takes a write to its sleeping time as a
 * reason to wake up, and would collapse what a test has just split. Knobs that
 * this kernel does not have are no business of most tests.
 */
static void knob_put(const struct knob *knob, const char *value)
{
	char now[VALUE_SIZE];

	if (file_read(knob_path(knob->name), now, sizeof(now)))
		return;
	keep_choice(now);
	if (strcmp(now, value) && knob_write(knob->name, value))
		note("could not set %s to %s", knob->name, value);
}

void knobs_set_base(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++)
		knob_put(&knobs[i], knobs[i].base);
}

void knobs_restore(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(knobs); i++)
		if (*knobs[i].saved)
			knob_put(&knobs[i], knobs[i].saved);
}

/* Kernels without a threshold of their own follow khugepaged's limit. */
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

/* --- the cgroup of the running test --- */

static char cgroup[VALUE_SIZE];

static const char *cgroup_path(const char *file)
{
	static char path[2 * VALUE_SIZE];

	if (!*cgroup)
		skip("no cgroup v2 memory controller in " CGROUP_ROOT);
	snprintf(path, sizeof(path), "%s/%s", cgroup, file);
	return path;
}

void cgroup_create(void)
{
	static int number;

	*cgroup = '\0';
	file_write(CGROUP_ROOT "/cgroup.subtree_control", "+memory");
	snprintf(cgroup, sizeof(cgroup), CGROUP_ROOT "/kselftest-thp-%d-%d",
		 getpid(), ++number);
	if (mkdir(cgroup, 0755) || access(cgroup_path("memory.max"), F_OK)) {
		rmdir(cgroup);
		*cgroup = '\0';
	}
}

void cgroup_remove(void)
{
	int tries;

	if (!*cgroup)
		return;
	file_write(cgroup_path("cgroup.kill"), "1");
	for (tries = 0; rmdir(cgroup) && errno == EBUSY && tries < 100; tries++)
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

/* --- the deferred split queue of that cgroup --- */

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

static unsigned long cgroup_inode(void)
{
	struct stat status;

	expect(!stat(cgroup_path(""), &status), "%s: %s", cgroup,
	       strerror(errno));
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

/* Huge pages waiting in this test's cgroup, on all nodes together. */
long queue_count(void)
{
	char path[2 * VALUE_SIZE], line[1024];
	unsigned long inode = cgroup_inode(), owner;
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
	struct queue queue = { path, cgroup_inode(), nr };

	need_shrinker("scan", path, sizeof(path));
	scan_node(node, &queue);
}

void queue_scan(long nr)
{
	char path[2 * VALUE_SIZE];
	struct queue queue = { path, cgroup_inode(), nr };

	need_shrinker("scan", path, sizeof(path));
	visit_nodes(scan_node, &queue);
}

/* What memory pressure does to the queue, at once and to all of it. */
void trigger(void)
{
	char path[2 * VALUE_SIZE];

	if (shrinker_path("scan", path, sizeof(path)))
		queue_scan(DEFERRED_SCAN_ALL);
	else
		expect(!file_write("/proc/sys/vm/drop_caches", "2"),
		       "vm.drop_caches cannot be written");
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

/* --- a swap device in memory --- */

#define SWAP_SIZE	(256 * MB)
#define SWAP_PRIORITY	32767

static int zram = -1;
static char zram_device[VALUE_SIZE];

static bool zram_set(const char *file, const char *value)
{
	char path[VALUE_SIZE];

	snprintf(path, sizeof(path), "/sys/block/zram%d/%s", zram, file);
	return !file_write(path, value);
}

/* The header that mkswap writes, version 1 and without bad pages. */
static bool make_swap(const char *device)
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

/* Called outside of a test; the test itself finds out whether it worked. */
void swap_on(void)
{
	char text[VALUE_SIZE];

	if (access("/sys/class/zram-control", F_OK) &&
	    system("modprobe -q zram num_devices=0 2>/dev/null"))
		return;
	if (file_read("/sys/class/zram-control/hot_add", text, sizeof(text)))
		return;
	zram = atoi(text);
	snprintf(zram_device, sizeof(zram_device), "/dev/zram%d", zram);
	snprintf(text, sizeof(text), "%lu", SWAP_SIZE);
	if (!zram_set("disksize", text) || !make_swap(zram_device) ||
	    swapon(zram_device, SWAP_FLAG_PREFER | SWAP_PRIORITY))
		swap_off();
}

void swap_off(void)
{
	char text[VALUE_SIZE];

	if (zram < 0)
		return;
	swapoff(zram_device);
	zram_set("reset", "1");
	snprintf(text, sizeof(text), "%d", zram);
	file_write("/sys/class/zram-control/hot_remove", text);
	zram = -1;
}
