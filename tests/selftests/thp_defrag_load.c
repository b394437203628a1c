// SPDX-License-Identifier: GPL-2.0
/*
 * vm.defrag_mode under load: who cannot wait, or cannot wait for file systems,
 * gets memory; the OOM killer comes as soon as without it; the mode is switched,
 * and memory is taken offline, while others allocate.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/icmp.h>
#include <linux/loop.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thp_util.h"

#define SECONDS		120
#define TOGGLES		50
#define OFFLINE_SECONDS	60
#define BLOCK_SECONDS	10
#define BURST_THPS	16
#define BURST_PIPES	((long)(16 * MB))

/* --- what others do meanwhile --- */

static void fault_thps(void *unused)
{
	(void)unused;
	for (;;) {
		struct area area = area_map(BURST_THPS);
		int thp;

		for (thp = 0; thp < area.thps; thp++)
			touch(area_thp(&area, thp));
		area_free(&area);
	}
}

static void fill_some_pipes(void *unused)
{
	(void)unused;
	fill_pipes(BURST_PIPES);
}

/* Pages that cannot be moved come and go with a process. */
static void renew_pipes(void *unused)
{
	(void)unused;
	for (;;)
		helper_join(helper_start(fill_some_pipes, NULL));
}

static void (* const loads[])(void *) = { fault_thps, renew_pipes, renew_pipes };
static pid_t loading[ARRAY_SIZE(loads)];

static void load_start(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(loads); i++)
		loading[i] = helper_start(loads[i], NULL);
}

/* Nobody has given up before. */
static void load_stop(void)
{
	int status;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(loads); i++) {
		kill(loading[i], SIGKILL);
		expect(waitpid(loading[i], &status, 0) == loading[i],
		       "waitpid: %s", strerror(errno));
		expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		       "load %zu has ended by itself: %s", i, reason);
	}
}

/* --- the mode is switched --- */

/*
 * All on one processor: requests are interrupted while they wait or reclaim. QEMU's
 * emulation goes on for ever with a breakpoint that the kernel has removed from its
 * code while another processor was about to execute it.
 */
static void toggle(void *unused)
{
	int i;

	(void)unused;
	stay_on_cpu(0);
	take_to_pieces();
	load_start();
	for (i = 0; i < TOGGLES; i++) {
		file_set(DEFRAG_MODE, i % 2 ? "0" : "1");
		usleep(200000);
	}
	load_stop();
}

/* A request may meet the mode on and then off, and the other way round. */
static void toggled(void)
{
	need_all_memory();
	watch_for_leaks();
	helper_join(helper_start(toggle, NULL));
	expect_no_leak();
}

/* --- memory goes offline --- */

static void on_alarm(int sig)
{
	(void)sig;
}

/*
 * Takes a block of memory offline and puts it back; many hold what cannot be moved.
 * The kernel tries again and again while a page is in use, until a signal comes.
 */
static bool offline_and_back(const char *block)
{
	int error;

	alarm(BLOCK_SECONDS);
	error = file_write(block, "offline");
	alarm(0);
	if (error == -EINTR)
		note("%s was not offline within %d seconds", block, BLOCK_SECONDS);
	if (error)
		return false;
	usleep(100000);
	file_set(block, "online");
	return true;
}

/* Free blocks that are isolated count as free and cannot be had. */
static void offline(void)
{
	struct sigaction action = { .sa_handler = on_alarm };
	double end = now() + OFFLINE_SECONDS;
	long total = meminfo("MemTotal");
	glob_t blocks;
	int times = 0;
	size_t i;

	need_all_memory();
	if (glob("/sys/devices/system/memory/memory*/state", 0, NULL, &blocks))
		skip("memory cannot go offline (needs CONFIG_MEMORY_HOTREMOVE)");
	expect(!sigaction(SIGALRM, &action, NULL), "sigaction: %s", strerror(errno));
	file_set(DEFRAG_MODE, "1");
	load_start();
	for (i = 0; now() < end && times < 3; i = (i + 1) % blocks.gl_pathc)
		times += offline_and_back(blocks.gl_pathv[i]);
	load_stop();
	expect(times, "no memory went offline");
	expect(meminfo("MemTotal") == total, "%ld MB before, %ld MB after",
	       total / (long)MB, meminfo("MemTotal") / (long)MB);
}

/* --- a network that answers in interrupts --- */

#define PINGS		10000
#define PING_DATA	1000

static unsigned short checksum(const unsigned short *words, size_t size)
{
	unsigned long sum = 0;

	for (; size; size -= 2)
		sum += *words++;
	sum = (sum >> 16) + (sum & 0xffff);
	return ~(sum + (sum >> 16));
}

static int ping_socket(void)
{
	struct ifreq request = { .ifr_name = "lo" };
	struct icmp_filter filter = { .data = ~(1U << ICMP_ECHOREPLY) };
	int size = 256 * MB, fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);

	if (fd < 0)
		skip("no network (needs CONFIG_INET)");
	expect(!ioctl(fd, SIOCGIFFLAGS, &request), "lo: %s", strerror(errno));
	request.ifr_flags |= IFF_UP;
	expect(!ioctl(fd, SIOCSIFFLAGS, &request), "lo: %s", strerror(errno));
	/* The answers are only counted in the end, so that each takes a page. */
	expect(!setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)),
	       "SO_RCVBUFFORCE: %s", strerror(errno));
	expect(!setsockopt(fd, SOL_RAW, ICMP_FILTER, &filter, sizeof(filter)),
	       "ICMP_FILTER: %s", strerror(errno));
	return fd;
}

/* The kernel allocates each answer in a soft interrupt, with GFP_ATOMIC. */
static void pings_answered(void)
{
	struct {
		struct icmphdr header;
		char data[PING_DATA];
	} ping = { .header.type = ICMP_ECHO };
	struct sockaddr_in self = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = ping_socket(), answers = 0, i;

	ping.header.checksum = checksum((void *)&ping, sizeof(ping));
	exhaust_kind();
	for (i = 0; i < PINGS; i++)
		expect(sendto(fd, &ping, sizeof(ping), 0, (void *)&self,
			      sizeof(self)) == sizeof(ping), "ping %d: %s", i,
		       strerror(errno));
	sleep(1);
	while (recv(fd, &ping, sizeof(ping), MSG_DONTWAIT) > 0)
		answers++;
	expect(answers == PINGS, "%d answers to %d pings", answers, PINGS);
}

/* --- file systems that allocate while they hold their locks --- */

#define FOLDER		"/tmp/defrag-load"
#define IMAGE		"/tmp/defrag-load.image"
#define IMAGE_SIZE	(256 * MB)
#define WRITERS		4
#define FILES		300
#define FILE_SIZE	(16 * KB)

static int loop;

static void loop_mount(void)
{
	char device[32], command[256];
	int control, image, number;

	system("modprobe -q loop; modprobe -q ext4");
	control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	number = ioctl(control, LOOP_CTL_GET_FREE);
	close(control);
	snprintf(device, sizeof(device), "/dev/loop%d", number);
	loop = open(device, O_RDWR | O_CLOEXEC);
	image = open(IMAGE, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	/* Busybox, in direct boots, wants a block device. */
	snprintf(command, sizeof(command),
		 "mkfs.ext4 -q %s 2>/dev/null || busybox mke2fs -b 4096 %s >/dev/null",
		 device, device);
	mkdir(FOLDER, 0700);
	if (!ftruncate(image, IMAGE_SIZE) &&
	    !ioctl(loop, LOOP_SET_FD, image) && !system(command))
		mount(device, FOLDER, "ext4", 0, NULL);
	close(image);
}

static void loop_unmount(void)
{
	umount(FOLDER);
	rmdir(FOLDER);
	unlink(IMAGE);
	ioctl(loop, LOOP_CLR_FD);
	close(loop);
}

static void write_files(void *folder)
{
	static char data[FILE_SIZE];
	char path[128];
	int i;

	expect(!mkdir(folder, 0700), "%s: %s", (char *)folder, strerror(errno));
	for (i = 0; i < FILES; i++) {
		int fd;

		snprintf(path, sizeof(path), "%s/%d", (char *)folder, i);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		expect(fd >= 0 && write(fd, data, sizeof(data)) == sizeof(data),
		       "%s: %s", path, strerror(errno));
		if (i % 30 == 0)
			fsync(fd);
		close(fd);
	}
}

/*
 * With no page of their kind left, file systems ask for pages that cannot be moved
 * (GFP_NOFS), and the loop device for others (GFP_NOIO).
 */
static void file_systems_write(void)
{
	static char folders[WRITERS][64];
	pid_t writers[WRITERS];
	int i;

	need_all_memory();
	if (access(FOLDER "/lost+found", F_OK))
		skip("no ext4 on a loop device (needs CONFIG_EXT4_FS, CONFIG_BLK_DEV_LOOP)");
	exhaust_kind();
	for (i = 0; i < WRITERS; i++) {
		snprintf(folders[i], sizeof(folders[i]), FOLDER "/%d", i);
		writers[i] = helper_start(write_files, folders[i]);
	}
	for (i = 0; i < WRITERS; i++)
		helper_join(writers[i]);
}

/* --- memory runs out --- */

/* Beside each other, or with swap, or in a cgroup. */
enum { PLAIN, WITH_SWAP, IN_CGROUP };

static void eat(void *unused)
{
	char *memory;
	size_t size;

	(void)unused;
	memory = fill_memory(&size);
	fill_pipes(meminfo("MemTotal"));
	fail("%zu MB at %p and more than all memory in pipes", size / MB, memory);
}

/* The OOM killer is not kept waiting, with the mode on or off. */
static void oom_ends(long where)
{
	const char *text = getenv("THP_TEST_OOMS");
	int rounds = text ? atoi(text) : 1, i, status;

	need_all_memory();
	if (where == WITH_SWAP)
		need_swap();
	else
		cgroup_set("memory.swap.max", "0");
	if (where == IN_CGROUP)
		cgroup_set("memory.max", "128M");
	for (i = 0; i < 2 * rounds; i++) {
		pid_t pid;

		file_set(DEFRAG_MODE, i % 2 ? "0" : "1");
		pid = helper_start(eat, NULL);
		expect(waitpid(pid, &status, 0) == pid, "waitpid: %s",
		       strerror(errno));
		expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
		       "not killed, status %x: %s", status, reason);
	}
}

/*
 * A host that has the mode on gets it back, also after a test with watermarks that are
 * too low for it. This process has its own copy of what is saved for the runner.
 */
static void comes_back(void)
{
	char mode[32];

	file_set(DEFRAG_MODE, "1");
	settings_save();
	file_set("/proc/sys/vm/watermark_scale_factor", "1");
	file_set("/proc/sys/vm/min_free_kbytes", "256");
	if (zoneinfo("high") >= 2 * (long)THP_SIZE)
		skip("needs a host with less memory, and lower watermarks");
	settings_restore();
	expect(!file_read(DEFRAG_MODE, mode, sizeof(mode)) && *mode == '1',
	       "the mode is not on again");
}

#define SETTINGS	.seconds = SECONDS, .before = settings_save,		\
			.after = settings_restore

static void save_and_mount(void)
{
	settings_save();
	loop_mount();
}

static void restore_and_unmount(void)
{
	settings_restore();
	loop_unmount();
}

static const struct test tests[] = {
	TEST("defrag.comes_back", comes_back, SETTINGS),
	TEST("defrag.toggled", toggled, SETTINGS),
	TEST("defrag.offline", offline, SETTINGS),
	TEST("defrag.pings_answered", pings_answered, SETTINGS),
	TEST("defrag.file_systems_write", file_systems_write,
	     .seconds = SECONDS, .before = save_and_mount,
	     .after = restore_and_unmount),
	TEST_WITH("defrag.oom_ends", oom_ends, PLAIN, SETTINGS),
	TEST_WITH("defrag.oom_ends_with_swap", oom_ends, WITH_SWAP, SETTINGS,
		  .swap = true),
	TEST_WITH("defrag.oom_ends_in_cgroup", oom_ends, IN_CGROUP, SETTINGS),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
