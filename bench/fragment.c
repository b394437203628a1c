// SPDX-License-Identifier: GPL-2.0
/*
 * Work that fragments memory. A round fills memory with page cache and drops a
 * quarter of it, creates files and deletes half of them at random, fills pipes and
 * keeps half of them, starts and ends processes, and dirties anonymous memory at
 * random. It is deterministic, in proportion to the machine's memory.
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
#define SEED		1
#define READ_SIZE	(16 * KB)
#define SCATTER		7919	/* a prime: each chunk is read once */
#define PIPES		1500
#define PIPE_SIZE	(64 * KB)
#define FORKS		100
#define FOLDERS		100
#define FILES		200	/* in each */

/* In percent of the machine's memory. */
#define CACHE_PART	100
#define DIRTY_PART	30

static unsigned int seed = SEED;
static pid_t dirty_process;

/* --- the disk --- */

void fragment_mount(void)
{
	char command[128];

	if (!disk_device())
		return;
	snprintf(command, sizeof(command),
		 "busybox mke2fs -b 4096 -i 8192 %s >/dev/null",
		 disk_device());
	mkdir(FOLDER, 0700);
	if (!system(command))
		mount(disk_device(), FOLDER, "ext2", 0, NULL);
}

void fragment_unmount(void)
{
	umount(FOLDER);
	rmdir(FOLDER);
}

void fragment_begin(void)
{
	struct rlimit files = { 2 * PIPES + 64, 2 * PIPES + 64 };
	struct statfs status;

	if (statfs(FOLDER, &status) || status.f_type != EXT2_SUPER_MAGIC)
		skip("no ext2 on zram (CONFIG_EXT2_FS, CONFIG_ZRAM, busybox)");
	expect(!setrlimit(RLIMIT_NOFILE, &files), "setrlimit: %s",
	       strerror(errno));
}

/* --- the steps of a round --- */

static bool coin(void)
{
	return rand_r(&seed) & 0x1000;
}

static size_t part_of_memory(int percent)
{
	return sysconf(_SC_PHYS_PAGES) / 100 * percent * PAGE_SIZE;
}

/*
 * Reads out of order and drops a quarter again: free memory is then in pieces, and
 * few blocks are free enough to change their migrate type. The file is one hole, so
 * reading it does not touch the disk.
 */
static void read_cache(void)
{
	static char buffer[READ_SIZE];
	long chunks = part_of_memory(CACHE_PART) / READ_SIZE, i;
	int fd = open(FOLDER "/cache", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	expect(fd >= 0 && !ftruncate(fd, chunks * READ_SIZE),
	       FOLDER "/cache: %s", strerror(errno));
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
	for (i = 0; i < chunks; i++)
		expect(pread(fd, buffer, READ_SIZE, i * SCATTER % chunks *
			     READ_SIZE) == (ssize_t)READ_SIZE,
		       "read: %s", strerror(errno));
	for (i = 0; i < chunks; i++)
		if (coin() && coin())
			posix_fadvise(fd, i * READ_SIZE, READ_SIZE,
				      POSIX_FADV_DONTNEED);
	close(fd);
}

/* The files of one round stay for the next. */
static void make_files(void)
{
	static int number;
	struct stat status;
	char path[128];
	int folder, file, fd;

	for (folder = 0; folder < FOLDERS; folder++) {
		snprintf(path, sizeof(path), FOLDER "/%d", ++number);
		expect(!mkdir(path, 0700), "%s: %s", path, strerror(errno));
		for (file = 0; file < FILES; file++) {
			snprintf(path, sizeof(path), FOLDER "/%d/%d", number,
				 file);
			fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
			expect(fd >= 0, "%s: %s", path, strerror(errno));
			close(fd);
			if (stat(path, &status) || coin())
				unlink(path);
		}
	}
}

static void fill_pipes(void)
{
	static char buffer[PIPE_SIZE];
	static int pipes[PIPES][2];
	int i;

	for (i = 0; i < PIPES; i++) {
		if (*pipes[i] && coin())
			continue;
		if (*pipes[i]) {
			close(pipes[i][0]);
			close(pipes[i][1]);
		}
		expect(!pipe2(pipes[i], O_NONBLOCK | O_CLOEXEC), "pipe: %s",
		       strerror(errno));
		expect(write(pipes[i][1], buffer, PIPE_SIZE) > 0, "pipe: %s",
		       strerror(errno));
	}
}

static void nothing(void *unused)
{
	(void)unused;
}

static void fork_often(void)
{
	int i;

	for (i = 0; i < FORKS; i++)
		helper_join(helper_start(nothing, NULL));
}

/* Keeps its memory until it is killed at the end of the round. */
static void dirty(void *ready)
{
	size_t size = part_of_memory(DIRTY_PART), i;
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	madvise(memory, size, MADV_NOHUGEPAGE);
	for (i = 0; i < size / PAGE_SIZE; i++)
		memory[rand_r(&seed) % (size / PAGE_SIZE) * PAGE_SIZE] = 1;
	tell(((int *)ready)[1]);
	pause();
}

static void start_dirty(void)
{
	int ready[2];

	expect(!pipe(ready), "pipe: %s", strerror(errno));
	dirty_process = helper_start(dirty, ready);
	close(ready[1]);
	hear(ready[0]);
	close(ready[0]);
}

void fragment_step(int step)
{
	static void (* const steps[FRAGMENT_STEPS])(void) = {
		read_cache, make_files, fill_pipes, fork_often, start_dirty,
	};

	steps[step]();
}

void fragment_end_round(void)
{
	kill(dirty_process, SIGKILL);
	waitpid(dirty_process, NULL, 0);
}
