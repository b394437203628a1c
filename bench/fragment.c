// SPDX-License-Identifier: GPL-2.0
/*
 * Work that fragments memory, by several processes at the same time. In a round,
 * one reads files once and fills memory with page cache, one creates files and
 * deletes half of them at random, one renews half of the data in pipes, one starts
 * processes, of which some stay for a while, and one dirties anonymous memory. The
 * amounts are the same in each round and on each kernel, in proportion to the
 * machine's memory; only how they interleave is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define FOLDER		"/tmp/bench-fragment"
#define READ_SIZE	(64 * KB)
#define PIPE_SIZE	(64 * KB)
#define FOLDER_FILES	200
#define STAY		64	/* processes */

/* In a round, as parts of the machine's memory. */
#define READ_PERCENT	60
#define DIRTY_PERCENT	25
#define PIPES_PERCENT	6
#define FILE_PER	(64 * KB)	/* one file for each 64 KB of memory */
#define FORK_PER	(4 * MB)

static unsigned int seed;
static size_t memory;

/* --- the disk --- */

void fragment_mount(void)
{
	char command[128];

	if (!disk_device())
		return;
	snprintf(command, sizeof(command),
		 "busybox mke2fs -b 4096 -i 4096 %s >/dev/null", disk_device());
	mkdir(FOLDER, 0700);
	if (!system(command))
		mount(disk_device(), FOLDER, "ext2", 0, NULL);
}

void fragment_unmount(void)
{
	umount(FOLDER);
	rmdir(FOLDER);
}

/* --- what a process does in a round --- */

struct progress {
	long done;	/* of WORKER_STEPS for each process and round */
	double began, seconds;
};

static struct progress *progress;
static long own_steps;

/* Reports that this part of the round's work is done. */
static void report(long done, long all)
{
	long steps = done * WORKER_STEPS / all;
	double early;

	if (steps == own_steps)
		return;
	__atomic_add_fetch(&progress->done, steps - own_steps, __ATOMIC_SEQ_CST);
	own_steps = steps;
	early = progress->began + progress->seconds * steps / WORKER_STEPS -
		now();
	if (early > 0)
		usleep(early * 1e6);
}

static bool coin(void)
{
	return rand_r(&seed) & 0x1000;
}

/* The file is one hole, so reading it does not touch the disk. */
static void read_files(int round)
{
	static char buffer[READ_SIZE];
	long chunks = memory / 100 * READ_PERCENT / READ_SIZE, i;
	int fd = open(FOLDER "/cache", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	off_t start = (off_t)round * chunks * READ_SIZE;

	expect(fd >= 0 && !ftruncate(fd, start + chunks * READ_SIZE),
	       FOLDER "/cache: %s", strerror(errno));
	for (i = 0; i < chunks; i++) {
		expect(pread(fd, buffer, READ_SIZE, start + i * READ_SIZE) ==
		       (ssize_t)READ_SIZE, "read: %s", strerror(errno));
		report(i + 1, chunks);
	}
	close(fd);
}

/* Half of the files stay for one more round, and a quarter of those for ever. */
static void make_files(int round)
{
	long files = memory / FILE_PER, i;
	struct stat status;
	char path[128];
	int fd;

	for (i = 0; i < files; i++) {
		long folder = i / FOLDER_FILES;

		snprintf(path, sizeof(path), FOLDER "/%d.%ld", round, folder);
		if (i % FOLDER_FILES == 0)
			expect(!mkdir(path, 0700), "%s: %s", path,
			       strerror(errno));
		snprintf(path, sizeof(path), FOLDER "/%d.%ld/%ld", round,
			 folder, i);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		expect(fd >= 0, "%s: %s", path, strerror(errno));
		close(fd);
		if (stat(path, &status) || coin())
			unlink(path);
		snprintf(path, sizeof(path), FOLDER "/%d.%ld/%ld", round - 1,
			 folder, i);
		if (coin() || coin())
			unlink(path);
		report(i + 1, files);
	}
}

static void renew_pipes(int round)
{
	static char buffer[PIPE_SIZE];
	static int (*pipes)[2];
	long count = memory / 100 * PIPES_PERCENT / PIPE_SIZE, i;

	if (!pipes)
		pipes = calloc(count, sizeof(*pipes));
	for (i = 0; i < count; i++) {
		if (!round || coin()) {
			if (round) {
				close(pipes[i][0]);
				close(pipes[i][1]);
			}
			expect(!pipe2(pipes[i], O_NONBLOCK | O_CLOEXEC),
			       "pipe: %s", strerror(errno));
			expect(write(pipes[i][1], buffer, PIPE_SIZE) > 0,
			       "pipe: %s", strerror(errno));
		}
		report(i + 1, count);
	}
}

/* Page tables and stacks: a page in each of 32 page tables. */
static void live(void *unused)
{
	size_t size = 32 * THP_SIZE, i;
	char *sparse = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)unused;
	expect(sparse != MAP_FAILED, "mmap: %s", strerror(errno));
	madvise(sparse, size, MADV_NOHUGEPAGE);
	for (i = 0; i < size; i += THP_SIZE)
		touch(sparse + i);
	pause();
}

static void start_processes(int round)
{
	static pid_t stay[STAY];
	long count = memory / FORK_PER, i;

	(void)round;
	for (i = 0; i < count; i++) {
		pid_t *pid = &stay[rand_r(&seed) % STAY];

		if (*pid) {
			kill(*pid, SIGKILL);
			waitpid(*pid, NULL, 0);
		}
		*pid = helper_start(live, NULL);
		report(i + 1, count);
	}
}

static void dirty_memory(int round)
{
	size_t size = memory / 100 * DIRTY_PERCENT, pages = size / PAGE_SIZE, i;
	char *dirty = mmap(NULL, size, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)round;
	expect(dirty != MAP_FAILED, "mmap: %s", strerror(errno));
	madvise(dirty, size, MADV_NOHUGEPAGE);
	for (i = 0; i < pages; i++) {
		dirty[rand_r(&seed) % pages * PAGE_SIZE] = 1;
		report(i + 1, pages);
	}
	munmap(dirty, size);
}

/* --- the processes --- */

static void (* const works[])(int round) = {
	read_files, make_files, renew_pipes, start_processes, dirty_memory,
};

static struct worker {
	int start[2], end[2];
	pid_t pid;
} workers[ARRAY_SIZE(works)];

static void work(void *arg)
{
	struct worker *worker = arg;
	int round;

	seed = worker - workers + 1;
	for (round = 0;; round++) {
		hear(worker->start[0]);
		own_steps = 0;
		works[worker - workers](round);
		tell(worker->end[1]);
	}
}

void fragment_begin(void)
{
	struct rlimit files = { 65536, 65536 };
	struct statfs status;
	size_t i;

	if (statfs(FOLDER, &status) || status.f_type != EXT2_SUPER_MAGIC)
		skip("no ext2 on zram (CONFIG_EXT2_FS, CONFIG_ZRAM, busybox)");
	expect(!setrlimit(RLIMIT_NOFILE, &files), "setrlimit: %s",
	       strerror(errno));
	memory = sysconf(_SC_PHYS_PAGES) * PAGE_SIZE;
	progress = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	expect(progress != MAP_FAILED, "mmap: %s", strerror(errno));
	for (i = 0; i < ARRAY_SIZE(workers); i++) {
		expect(!pipe(workers[i].start) && !pipe(workers[i].end),
		       "pipe: %s", strerror(errno));
		workers[i].pid = helper_start(work, &workers[i]);
	}
}

void fragment_start_round(void)
{
	size_t i;

	progress->done = 0;
	progress->began = now();
	progress->seconds = setting("BENCH_SECONDS", 20);
	for (i = 0; i < ARRAY_SIZE(workers); i++)
		tell(workers[i].start[1]);
}

/* Waits until this share of the round's work is done. */
void fragment_wait(int part, int parts)
{
	long want = WORKER_STEPS * ARRAY_SIZE(workers) * part / parts;

	while (__atomic_load_n(&progress->done, __ATOMIC_SEQ_CST) < want)
		usleep(5000);
}

void fragment_end_round(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(workers); i++)
		hear(workers[i].end[0]);
}
