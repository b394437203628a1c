// SPDX-License-Identifier: GPL-2.0
/* Figures, clocks, and swap: see bench.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define DEFAULT_MIB	64
#define SECTOR		512
/* Every kernel gets the same bytes. */
#define SEED		1

long setting(const char *name, long otherwise)
{
	const char *text = getenv(name);
	char *end;
	long value;

	if (!text || !*text)
		return otherwise;
	value = strtol(text, &end, 10);
	expect(!*end && value > 0, "%s=%s is not a number above 0", name, text);
	return value;
}

int bench_thps(void)
{
	long thps = setting("BENCH_MIB", DEFAULT_MIB) * (long)MB /
		    (long)THP_SIZE;

	expect(thps > 0, "BENCH_MIB is less than a huge page");
	return thps;
}

/* --- figures --- */

void figure(const char *name, double value, const char *unit)
{
	int decimals = 0;

	if (!strcmp(unit, "s"))
		decimals = 10;
	else if (!strcmp(unit, "share"))
		decimals = 4;
	else if (!strcmp(unit, "ns"))
		decimals = 1;
	note("%s: %s %.*f %s", present_test->name, name, decimals, value, unit);
}

static double seconds(clockid_t clock)
{
	struct timespec t;

	return clock_gettime(clock, &t) ? 0 : t.tv_sec + t.tv_nsec / 1e9;
}

double own_cpu_time(void)
{
	return seconds(CLOCK_THREAD_CPUTIME_ID);
}

/* kswapd and other threads work for a test, too. */
static double cpu_time_of_others(void)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	clockid_t clock;
	double total = 0;

	expect(dir, "/proc: %s", strerror(errno));
	while ((entry = readdir(dir))) {
		pid_t pid = atoi(entry->d_name);

		if (pid && pid != getpid() && !clock_getcpuclockid(pid, &clock))
			total += seconds(clock);
	}
	closedir(dir);
	return total;
}

void sample(bool on)
{
	char *fds = getenv(SAMPLERS);

	while (fds && *fds) {
		ioctl(strtol(fds, &fds, 10),
		      on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
		fds += *fds == ',';
	}
}

/* Times are negative while the clock runs. The slow calls come first and last. */
struct spent clock_start(void)
{
	struct spent spent = { .cpu = -cpu_time_of_others() };

	sample(true);
	spent.cpu -= own_cpu_time();
	spent.time = -now();
	return spent;
}

struct spent clock_stop(struct spent spent)
{
	spent.time += now();
	spent.cpu += own_cpu_time();
	sample(false);
	spent.cpu += cpu_time_of_others();
	return spent;
}

void figure_spent(const char *name, struct spent spent)
{
	char full[64];

	snprintf(full, sizeof(full), "%s_time", name);
	figure(full, spent.time, "s");
	snprintf(full, sizeof(full), "%s_cpu", name);
	figure(full, spent.cpu * 1e9, "ns");
}

void rises_begin(struct rise *rises, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		rises[i].before = counter(rises[i].counter);
}

/* Leaves out counters that this kernel does not have. */
void rises_print(const struct rise *rises, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++)
		if (rises[i].before >= 0)
			figure(rises[i].name,
			       counter(rises[i].counter) - rises[i].before,
			       rises[i].unit);
}

/* --- memory --- */

/* Huge pages with this many pages each that are not zero-filled, spread evenly. */
struct area area_scatter(int thps, int live_pages, long offset)
{
	struct area area = area_map(thps);
	unsigned int seed = SEED;
	int thp, i;

	area_fill(&area);
	for (thp = 0; thp < area.thps; thp++)
		for (i = 0; i < live_pages; i++) {
			char *page = area_thp(&area, thp) +
				     i * THP_PAGES / live_pages * PAGE_SIZE;

			page[offset == ANYWHERE ? rand_r(&seed) % PAGE_SIZE :
						  (size_t)offset] = 1;
		}
	return area;
}

/* --- the shrinker --- */

void need_shrinker(void)
{
	if (!knob_exists("shrink_underused"))
		skip("no shrinker for underused huge pages");
	set_threshold(USUAL_THRESHOLD);
}

struct spent scan(void)
{
	struct spent spent = clock_start();

	queue_scan(DEFERRED_SCAN_ALL);
	return clock_stop(spent);
}

/* --- swap --- */

static const char *block_path(const char *device, const char *file)
{
	static char path[128];
	const char *name = strrchr(device, '/');

	snprintf(path, sizeof(path), "/sys/block/%s/%s",
		 name ? name + 1 : device, file);
	return path;
}

/* swap_on() uses the device in this variable. */
#define NAMED_SWAP	"THP_TEST_SWAP"

static void swap_on_device(const char *device)
{
	setenv(NAMED_SWAP, device, 1);
	swap_on();
}

#define RAM_DISK	"/dev/ram0"

/* All of it is written once, as its memory is allocated by that. */
void ram_swap_on(void)
{
	static char zeros[MB];
	int fd = open(RAM_DISK, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return;
	while (write(fd, zeros, sizeof(zeros)) > 0)
		;
	close(fd);
	swap_on_device(RAM_DISK);
}

/* The kernel swaps huge pages whole only to devices that do not rotate. */
void disk_swap_on(void)
{
	const char *disk = getenv("BENCH_DISK");

	if (!disk)
		return;
	file_write(block_path(disk, "queue/rotational"), "0");
	swap_on_device(disk);
}

void disk_swap_off(void)
{
	if (!getenv("BENCH_DISK"))
		return;
	swap_off();
	unsetenv(NAMED_SWAP);
}

/* The first swap device, or an empty string. */
static const char *swap_device(void)
{
	static char device[64];
	char swaps[1024];

	*device = '\0';
	expect(!file_read("/proc/swaps", swaps, sizeof(swaps)),
	       "no swap (CONFIG_SWAP)");
	sscanf(swaps, "%*[^\n]\n%63s", device);
	return device;
}

void need_any_swap(void)
{
	if (!*swap_device())
		skip(present_test->swap ? "no swap on zram (CONFIG_ZRAM)" :
		     "no disk of 256 MiB to swap to: BENCH_DISK names it");
}

/* Memory that zram uses, or what was written to the disk so far, in bytes. */
long swap_stored(void)
{
	const char *device = swap_device();
	long value;
	char text[256];

	if (!file_read(block_path(device, "mm_stat"), text, sizeof(text)) &&
	    sscanf(text, "%*d %*d %ld", &value) == 1)
		return value;
	expect(!file_read(block_path(device, "stat"), text, sizeof(text)) &&
	       sscanf(text, "%*d %*d %*d %*d %*d %*d %ld", &value) == 1,
	       "%s has no statistics of writes", device);
	return value * SECTOR;
}

void wait_written(void)
{
	do {
		vmstat_refresh();
	} while (counter("nr_writeback") > 0 && !usleep(1000));
}

void page_out(const struct area *area)
{
	expect(!madvise(area->base, area_size(area), MADV_PAGEOUT),
	       "MADV_PAGEOUT: %s", strerror(errno));
}
