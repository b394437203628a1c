// SPDX-License-Identifier: GPL-2.0
/*
 * The out-of-memory experiment of thp_oom over the whole range of thresholds: a
 * program that touches one byte in every 50 KiB of 40 MiB runs in a cgroup of
 * 20 MiB without swap.
 *
 * oom_THRESHOLD	more zero-filled 4K pages than that make a huge page
 *			underused. The program touches 40 or 41 pages of each
 *			huge page, which leaves 471 or 472 zero-filled.
 *
 * Figures: survived (count, 1 or 0), rss_peak (bytes), thps (allocated for
 * the program) and, if it survived, run_time. Being killed is a valid measurement.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench.h"

#define LIMIT		"20M"
#define SIZE		(40 * MB)
#define STRIDE		(50 * KB)
#define ROUNDS		3
#define FULL_OF_THPS	9	/* as many as fit into LIMIT */
/* The program's other memory. Without it, 4K pages alone would just fit. */
#define OWN		MB

static char *map(size_t size)
{
	char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	return memory;
}

static void eat(void *unused)
{
	char *own = map(OWN), *memory;
	size_t i;
	int round;

	(void)unused;
	madvise(own, OWN, MADV_NOHUGEPAGE);
	memset(own, 1, OWN);
	for (round = 0; round < ROUNDS; round++) {
		memory = map(SIZE);
		for (i = 0; i < SIZE; i += STRIDE)
			memory[i] = 1;
		for (i = 0; i < SIZE; i += STRIDE)
			expect(memory[i] == 1, "wrong byte at offset %zu", i);
		munmap(memory, SIZE);
	}
}

static void oom(long threshold)
{
	long faulted = counter("thp_fault_alloc");
	struct rusage usage;
	bool survived;
	double began;
	int status;
	pid_t pid;

	set_threshold(threshold);
	knob_set("enabled", "always");
	cgroup_set("memory.swap.max", "0");
	cgroup_set("memory.max", LIMIT);

	began = now();
	pid = helper_start(eat, NULL);
	expect(wait4(pid, &status, 0, &usage) == pid, "wait4: %s",
	       strerror(errno));
	began = now() - began;

	survived = WIFEXITED(status) && !WEXITSTATUS(status);
	expect(survived || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
	       "neither survived nor killed: status %#x", status);
	expect(survived == !cgroup_event("memory.events", "oom_kill"),
	       "not killed by the OOM killer");
	faulted = counter("thp_fault_alloc") - faulted;
	expect(faulted >= FULL_OF_THPS,
	       "only %ld huge pages in the experiment", faulted);
	figure("survived", survived, "count");
	figure("rss_peak", usage.ru_maxrss * (double)KB, "bytes");
	figure("thps", faulted, "thps");
	if (survived)
		figure("run_time", began, "s");
}

static const struct test tests[] = {
	TEST_WITH("oom_0", oom, 0),
	TEST_WITH("oom_128", oom, 128),
	TEST_WITH("oom_256", oom, 256),
	TEST_WITH("oom_384", oom, 384),
	TEST_WITH("oom_409", oom, 409),
	TEST_WITH("oom_430", oom, 430),
	TEST_WITH("oom_450", oom, 450),
	TEST_WITH("oom_460", oom, 460),
	TEST_WITH("oom_465", oom, 465),
	TEST_WITH("oom_470", oom, 470),
	TEST_WITH("oom_471", oom, 471),
	TEST_WITH("oom_472", oom, 472),
	TEST_WITH("oom_480", oom, 480),
	TEST_WITH("oom_490", oom, 490),
	TEST_WITH("oom_500", oom, 500),
	TEST_WITH("oom_511", oom, 511),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
