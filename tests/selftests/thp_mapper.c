// SPDX-License-Identifier: GPL-2.0
/*
 * A swap device on the device mapper, which can hold requests back, and fail
 * those for one page. Below it is the disk of the test, in zram.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/dm-ioctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/swap.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thp_mapper.h"
#include "thp_util.h"

#define NAME		"kselftest-thp"
#define CONTROL		"/dev/mapper/control"
#define SECTOR		512UL
#define PER_PAGE	(PAGE_SIZE / SECTOR)
#define BUFFER		4096

#define HELD_SECONDS	15.0

static char device[32];

/*
 * When the device was held, in memory that all processes share. A test that
 * fails meanwhile cannot end, as its readers cannot be killed: so the device is
 * released by another process after a while.
 */
static volatile double *held_since;
static pid_t watchdog;

/* Returns 0 or -errno. The answer is in the buffer. */
static int command(unsigned long what, struct dm_ioctl *io)
{
	int fd = open(CONTROL, O_RDWR | O_CLOEXEC);
	int error = 0;

	if (fd < 0 && !system("modprobe -q dm_mod 2>/dev/null"))
		fd = open(CONTROL, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	io->version[0] = DM_VERSION_MAJOR;
	io->data_size = BUFFER;
	io->data_start = sizeof(*io);
	strcpy(io->name, NAME);
	if (ioctl(fd, what, io))
		error = -errno;
	close(fd);
	return error;
}

static int simple(unsigned long what, unsigned int flags)
{
	char buffer[BUFFER] = { 0 };
	struct dm_ioctl *io = (void *)buffer;
	int error;

	io->flags = flags;
	error = command(what, io);
	/* minor() of the kernel's form of a device number */
	if (!error && what == DM_DEV_CREATE)
		snprintf(device, sizeof(device), "/dev/dm-%u",
			 (unsigned int)((io->dev & 0xff) |
					(io->dev >> 12 & ~0xffUL)));
	return error;
}

/* Adds a range to the table: a part of the disk, or nothing but errors. */
static char *add_target(struct dm_ioctl *io, char *at, unsigned long start,
			unsigned long length, bool bad)
{
	struct dm_target_spec *spec = (void *)at;
	char *words = at + sizeof(*spec);

	if (!length)
		return at;
	spec->sector_start = start;
	spec->length = length;
	strcpy(spec->target_type, bad ? "error" : "linear");
	if (!bad)
		sprintf(words, "%s %lu", disk_device(), start);
	spec->next = (sizeof(*spec) + strlen(words) + 1 + 7) & ~7UL;
	io->target_count++;
	return at + spec->next;
}

/* Requests for this page of the device fail, or for none if it is negative. */
static int load(long bad)
{
	unsigned long end = SWAP_SIZE / SECTOR;
	char buffer[BUFFER] = { 0 }, *at;
	struct dm_ioctl *io = (void *)buffer;
	unsigned long start = 0;
	int error;

	at = buffer + sizeof(*io);
	if (bad >= 0) {
		at = add_target(io, at, 0, bad * PER_PAGE, false);
		at = add_target(io, at, bad * PER_PAGE, PER_PAGE, true);
		start = (bad + 1) * PER_PAGE;
	}
	add_target(io, at, start, end - start, false);
	error = command(DM_TABLE_LOAD, io);
	return error ? error : simple(DM_DEV_SUSPEND, 0);
}

static void watch(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		double since = *held_since;

		if (since && now() > since + HELD_SECONDS)
			mapper_release();
		usleep(200000);
	}
}

/* Whoever looks for new devices may have it open for a moment. */
static void mapper_remove(void)
{
	double end = now() + 5;

	while (simple(DM_DEV_REMOVE, 0) == -EBUSY && now() < end)
		usleep(100000);
}

void mapper_on(void)
{
	*device = '\0';
	if (!disk_device())
		return;
	held_since = mmap(NULL, PAGE_SIZE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (held_since == MAP_FAILED)
		return;
	mapper_remove();
	if (simple(DM_DEV_CREATE, 0))
		return;
	if (load(-1) || !swap_format(device) ||
	    swapon(device, SWAP_FLAG_PREFER | 32767)) {
		mapper_remove();
		*device = '\0';
		return;
	}
	watchdog = fork();
	if (!watchdog)
		watch();
}

void mapper_off(void)
{
	if (!*device)
		return;
	kill(watchdog, SIGKILL);
	waitpid(watchdog, NULL, 0);
	mapper_release();
	load(-1);
	swapoff(device);
	mapper_remove();
	munmap((void *)held_since, PAGE_SIZE);
}

void need_mapper(void)
{
	if (!*device)
		skip("no swap on the device mapper (CONFIG_BLK_DEV_DM, CONFIG_ZRAM)");
}

int mapper_swapoff(void)
{
	return swapoff(device) ? -errno : 0;
}

void mapper_hold(void)
{
	int error = simple(DM_DEV_SUSPEND, DM_SUSPEND_FLAG |
			   DM_SKIP_LOCKFS_FLAG | DM_NOFLUSH_FLAG);

	expect(!error, "the device cannot be held: %s", strerror(-error));
	*held_since = now();
}

void mapper_release(void)
{
	*held_since = 0;
	simple(DM_DEV_SUSPEND, 0);
}

/* Each of them is in the kernel's log, where others look for defects. */
void need_read_errors(void)
{
	need_mapper();
	if (!getenv("THP_TEST_READ_ERRORS"))
		skip("makes read errors: not without THP_TEST_READ_ERRORS=1");
}

void mapper_fail_page(long slot)
{
	int error;

	mapper_hold();
	error = load(slot);	/* and releases it */
	*held_since = 0;
	expect(!error, "the device does not take its table: %s",
	       strerror(-error));
}
