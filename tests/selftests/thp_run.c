// SPDX-License-Identifier: GPL-2.0
/*
 * KTAP runner. It forks a child for each test and gives it its own process
 * group and memory cgroup, so a crash, a hang or a leak stays inside. The
 * parent owns everything that outlives a test: it sets the knobs to the same
 * values before each test, restores their old values at the end, and kills what
 * a test left running.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "thp_util.h"

#define DEFAULT_SECONDS		30
#define SECONDS_TO_DIE		10
#define INTERRUPTED		130	/* exit code, as PASS, FAIL, SKIP */

const struct test *present_test;

static void run_child(const struct test *test, const sigset_t *mask)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpgid(0, 0);
	sigprocmask(SIG_SETMASK, mask, NULL);
	/* Keeps the memory of a test together. */
	prefer_node(0);
	cgroup_enter();
	if (test->run)
		test->run();
	else
		test->run_with(test->arg);
	_exit(PASS);
}

enum outcome { CHILD_ENDED, TIMED_OUT, SIGNALLED };

static enum outcome wait_child(pid_t pid, int *status, const sigset_t *waited,
			       double seconds)
{
	double end = now() + seconds;

	while (waitpid(pid, status, WNOHANG) != pid) {
		double left = end - now();
		struct timespec t = { .tv_sec = (time_t)left };
		int sig;

		if (left <= 0)
			return TIMED_OUT;
		t.tv_nsec = (long)((left - t.tv_sec) * 1e9);
		sig = sigtimedwait(waited, NULL, &t);
		if (sig > 0 && sig != SIGCHLD)
			return SIGNALLED;
	}
	return CHILD_ENDED;
}

static int reap(pid_t pid, const sigset_t *waited, unsigned int seconds)
{
	int status, verdict = FAIL;

	switch (wait_child(pid, &status, waited, seconds)) {
	case CHILD_ENDED:
		if (WIFEXITED(status))
			return WEXITSTATUS(status);
		snprintf(reason, REASON_SIZE, "killed by signal %d",
			 WTERMSIG(status));
		return FAIL;
	case TIMED_OUT:
		snprintf(reason, REASON_SIZE, "no result within %u seconds",
			 seconds);
		break;
	case SIGNALLED:
		verdict = INTERRUPTED;
		break;
	}
	kill(-pid, SIGKILL);
	kill(pid, SIGKILL);
	wait_child(pid, &status, waited, SECONDS_TO_DIE);
	return verdict;
}

/* A test fails if the kernel has logged a problem since fd was opened. */
static int check_kernel_log(int fd, int verdict)
{
	static const char * const bad[] = {
		"BUG:", "WARNING:", "Oops", "Bad rss-counter", "Bad page state",
		"list_del corruption", "list_add corruption",
		"blocked for more than", "rcu_sched self-detected",
	};
	char line[REASON_SIZE];
	size_t i;

	while (fd >= 0 && log_line(fd, line, sizeof(line))) {
		for (i = 0; i < ARRAY_SIZE(bad); i++) {
			if (!strstr(line, bad[i]))
				continue;
			snprintf(reason, REASON_SIZE, "kernel log: %.200s",
				 line);
			return FAIL;
		}
	}
	return verdict;
}

static unsigned int time_limit(const struct test *test)
{
	return patience(test->seconds ? test->seconds : DEFAULT_SECONDS);
}

static int run_one(const struct test *test, const sigset_t *waited,
		   const sigset_t *mask)
{
	int verdict, kmsg = log_open();
	pid_t pid;

	*reason = '\0';
	present_test = test;
	cgroup_create();
	if (test->swap)
		swap_on();
	if (test->disk)
		disk_on();
	if (test->before)
		test->before();
	fflush(stdout);
	pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(FAIL);
	}
	if (!pid)
		run_child(test, mask);
	setpgid(pid, pid);
	verdict = reap(pid, waited, time_limit(test));
	cgroup_remove();
	if (test->after)
		test->after();
	if (test->swap)
		swap_off();
	if (test->disk)
		disk_off();
	trace_off();
	knobs_set_base();
	if (verdict != INTERRUPTED)
		verdict = check_kernel_log(kmsg, verdict);
	if (kmsg >= 0)
		close(kmsg);
	return verdict;
}

static bool selected(const struct test *test, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (!strcmp(argv[i], test->name))
			return true;
	return argc < 2;
}

static void report(int number, const char *name, int verdict, double seconds)
{
	if (verdict == SKIP) {
		printf("ok %d %s # SKIP %s\n", number, name, reason);
	} else {
		if (verdict != PASS)
			printf("# %s: %s\n", name, reason);
		printf("# %s took %.1f s\n", name, seconds);
		printf("%sok %d %s\n", verdict == PASS ? "" : "not ", number,
		       name);
	}
	fflush(stdout);
}

/* Runs all tests, or those named on the command line; --list prints the names. */
int run_tests(int argc, char **argv, const struct test *tests, int count)
{
	int i, number = 0, planned = 0, failed = 0, skipped = 0;
	sigset_t waited, mask;

	if (argc == 2 && !strcmp(argv[1], "--list")) {
		for (i = 0; i < count; i++)
			puts(tests[i].name);
		return PASS;
	}
	for (i = 0; i < count; i++)
		planned += selected(&tests[i], argc, argv);
	if (!planned) {
		fprintf(stderr, "%s: no such test; --list prints all names\n",
			argv[0]);
		return FAIL;
	}

	printf("KTAP version 1\n");
	if (geteuid()) {
		printf("1..0 # SKIP must be run by root\n");
		return SKIP;
	}
	printf("1..%d\n", planned);

	reason = mmap(NULL, REASON_SIZE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (reason == MAP_FAILED) {
		perror("mmap");
		return FAIL;
	}
	/* Fails with EBUSY if debugfs is mounted, as it usually is. */
	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	sigemptyset(&waited);
	sigaddset(&waited, SIGCHLD);
	sigaddset(&waited, SIGHUP);
	sigaddset(&waited, SIGINT);
	sigaddset(&waited, SIGTERM);
	sigprocmask(SIG_BLOCK, &waited, &mask);
	knobs_save();
	atexit(knobs_restore);
	knobs_set_base();
	khugepaged_hold();

	for (i = 0; i < count; i++) {
		double began = now();
		int verdict;

		if (!selected(&tests[i], argc, argv))
			continue;
		verdict = run_one(&tests[i], &waited, &mask);
		if (verdict == INTERRUPTED) {
			printf("Bail out! interrupted\n");
			return INTERRUPTED;
		}
		report(++number, tests[i].name, verdict, now() - began);
		failed += verdict != PASS && verdict != SKIP;
		skipped += verdict == SKIP;
	}
	if (failed)
		return FAIL;
	return skipped == planned ? SKIP : PASS;
}
