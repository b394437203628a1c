// SPDX-License-Identifier: GPL-2.0
/*
 * The base of the other shared files: how a test ends, its helper processes, the
 * kernel log, the clock and the processor. It calls none of them; see thp_util.h
 * for the order.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "thp_util.h"

/* In memory that all processes of a test share; the runner maps it. */
char *reason;

static void finish(int verdict, const char *fmt, va_list args)
{
	static int finished;

	if (!__atomic_exchange_n(&finished, 1, __ATOMIC_SEQ_CST) && !*reason)
		vsnprintf(reason, REASON_SIZE, fmt, args);
	_exit(verdict);
}

void fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	finish(FAIL, fmt, args);
	__builtin_unreachable();
}

void skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	finish(SKIP, fmt, args);
	__builtin_unreachable();
}

void note(const char *fmt, ...)
{
	va_list args;

	printf("# ");
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
}

/* Opens the kernel log at its end, so that log_line() returns what is new. */
int log_open(void)
{
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);

	if (fd >= 0)
		lseek(fd, 0, SEEK_END);
	return fd;
}

/* Reads the next message, or returns false; EPIPE only means that some are lost. */
bool log_line(int fd, char *line, size_t size)
{
	char record[8192], *text;	/* the longest there is */
	ssize_t length;

	do {
		length = read(fd, record, sizeof(record) - 1);
	} while (length < 0 && errno == EPIPE);
	if (length <= 0)
		return false;
	record[length] = '\0';
	text = strchr(record, ';');
	text = text ? text + 1 : record;
	snprintf(line, size, "%.*s", (int)strcspn(text, "\n"), text);
	return true;
}

double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* THP_TEST_SLOW multiplies all limits, for kernels with expensive checks. */
double patience(double seconds)
{
	const char *factor = getenv("THP_TEST_SLOW");

	return seconds * (factor ? atof(factor) : 1);
}

/* A second process of a test: it shares the verdict and dies with the test. */
pid_t helper_start(void (*run)(void *arg), void *arg)
{
	pid_t pid = fork();

	expect(pid >= 0, "fork: %s", strerror(errno));
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	run(arg);
	_exit(PASS);
}

void helper_join(pid_t pid)
{
	int status;

	expect(waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
	if (WIFSIGNALED(status))
		fail("helper process killed by signal %d", WTERMSIG(status));
	if (WEXITSTATUS(status))
		_exit(WEXITSTATUS(status));
}

/* Processes of a test wait for each other through pipes. */
void tell(int fd)
{
	expect(write(fd, "", 1) == 1, "pipe: %s", strerror(errno));
}

void hear(int fd)
{
	char c;

	expect(read(fd, &c, 1) == 1, "the other process has ended");
}

/* A write that leaves a zero page zero, and that no compiler drops. */
void touch(char *address)
{
	__atomic_store_n(address, 0, __ATOMIC_RELAXED);
}

void stay_on_cpu(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	expect(!sched_setaffinity(0, sizeof(cpus), &cpus), "CPU %d: %s", cpu,
	       strerror(errno));
}
