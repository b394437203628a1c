// SPDX-License-Identifier: GPL-2.0
/*
 * The out-of-memory experiment: a program that touches one byte in every 50 KiB
 * of 40 MiB runs in a cgroup of 20 MiB without swap. With huge pages it needs
 * 40 MiB, and is killed, unless the kernel gives the untouched pages back.
 *
 * thp_oom --report prints what happens at each setting, on any kernel.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thp_util.h"

#define MEMORY_MAX	"20M"
#define SIZE		(40 * MB)
#define STRIDE		(50 * KB)
#define ROUNDS		3
#define FULL_OF_THPS	9	/* what fits into memory.max */

/*
 * Other memory of the program. Nine huge pages, and 450 small ones when no more
 * huge ones fit, are 19.8 MiB: without this, a few KiB would decide.
 */
#define OWN		MB

struct outcome {
	bool survived;
	long huge;		/* most huge pages seen in one round */
	long rss_peak_kb;
	long oom_kills;
};

static struct outcome *outcome;

static char mark(size_t offset)
{
	return (char)(offset / STRIDE % 255 + 1);
}

static void one_round(void)
{
	char *memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long faults = counter("thp_fault_alloc"), huge;
	size_t i;

	expect(memory != MAP_FAILED, "mmap: %s", strerror(errno));
	for (i = 0; i < SIZE; i += STRIDE) {
		memory[i] = mark(i);
		if (i % (10 * STRIDE))
			continue;
		huge = counter("thp_fault_alloc") - faults;
		if (huge > outcome->huge)
			outcome->huge = huge;
	}
	for (i = 0; i < SIZE; i++)
		expect(memory[i] == (i % STRIDE ? 0 : mark(i)),
		       "wrong byte at offset %zu", i);
	munmap(memory, SIZE);
}

static void eat(void *unused)
{
	char *own;
	int i;

	(void)unused;
	own = mmap(NULL, OWN, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	expect(own != MAP_FAILED && !madvise(own, OWN, MADV_NOHUGEPAGE),
	       "mmap: %s", strerror(errno));
	memset(own, 1, OWN);
	for (i = 0; i < ROUNDS; i++)
		one_round();
}

static void run_limited(void)
{
	struct rusage usage;
	int status;
	pid_t pid;

	outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	expect(outcome != MAP_FAILED, "mmap: %s", strerror(errno));
	knob_set("enabled", "always");
	cgroup_set("memory.swap.max", "0");
	cgroup_set("memory.max", MEMORY_MAX);

	pid = helper_start(eat, NULL);
	expect(wait4(pid, &status, 0, &usage) == pid, "wait4: %s",
	       strerror(errno));
	outcome->survived = WIFEXITED(status) && !WEXITSTATUS(status);
	outcome->rss_peak_kb = usage.ru_maxrss;
	outcome->oom_kills = cgroup_event("memory.events", "oom_kill");
	if (WIFEXITED(status) && WEXITSTATUS(status))
		_exit(WEXITSTATUS(status));
	expect(outcome->survived || WTERMSIG(status) == SIGKILL,
	       "killed by signal %d", WTERMSIG(status));
	expect(outcome->huge >= FULL_OF_THPS,
	       "the experiment had only %ld huge pages", outcome->huge);
}

static void lives(long threshold)
{
	set_threshold(threshold);
	run_limited();
	expect(outcome->survived, "killed for lack of memory");
	expect(!outcome->oom_kills, "%ld kills", outcome->oom_kills);
}

static void killed_when_off(long threshold)
{
	set_threshold(threshold);
	knob_set("shrink_underused", "0");
	run_limited();
	expect(!outcome->survived && outcome->oom_kills,
	       "survived: memory.max is too high for the other tests to count");
}

static void report_outcome(const char *setting)
{
	const char *state = "";

	run_limited();
	if (!knob_exists("shrink_underused"))
		state = " shrink_underused absent";
	printf("%s %s rss_peak_kB=%ld thps=%ld%s\n", setting,
	       outcome->survived ? "survived" : "killed", outcome->rss_peak_kb,
	       outcome->huge, state);
	fflush(stdout);
}

static void report(long threshold)
{
	char setting[64];

	set_threshold(threshold);
	snprintf(setting, sizeof(setting), "threshold=%ld", threshold);
	report_outcome(setting);
}

static void report_off(void)
{
	if (!knob_exists("shrink_underused"))
		skip("shrink_underused absent");
	set_threshold(409);
	knob_set("shrink_underused", "0");
	report_outcome("threshold=409,shrink_underused=0");
}

static const struct test tests[] = {
	TEST_WITH("oom.lives_at_409", lives, 409),
	TEST_WITH("oom.lives_at_450", lives, 450),
	TEST_WITH("oom.lives_at_470", lives, 470),
	TEST_WITH("oom.killed_when_off", killed_when_off, 409),
};

static const struct test reports[] = {
	TEST_WITH("oom.report_409", report, 409),
	TEST_WITH("oom.report_450", report, 450),
	TEST_WITH("oom.report_470", report, 470),
	TEST("oom.report_off", report_off),
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--report"))
		return run_tests(1, argv, reports, ARRAY_SIZE(reports));
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
