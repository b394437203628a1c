// SPDX-License-Identifier: GPL-2.0
/*
 * Thousands of thread stacks, as a Java virtual machine has them: each has 2 MiB and
 * is aligned, its thread uses a few pages at the top and protects a few at the end.
 * With enabled=always each of them becomes a huge page.
 *
 * stacks	All threads run and wait, first with enabled=never, then with always.
 *		memory.reclaim then asks for all of their stacks, without swap.
 *
 * Figures: never and always (bytes of stacks in memory), rss (the same with always
 * after memory.reclaim), over_never (share: rss / never), memory_never and memory
 * (bytes: memory.current, with always after memory.reclaim), thps (of the stacks with
 * always), reclaim (times).
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench.h"

#define STACK		THP_SIZE
#define USED		(16 * KB)
#define GUARD		(16 * KB)
#define CONTENT		0x5a
#define PATIENCE	300

static pthread_barrier_t running, over;

static void *live(void *stack)
{
	volatile unsigned char frame[USED];
	size_t i;

	for (i = 0; i < USED; i++)
		frame[i] = CONTENT;
	expect(!mprotect(stack, GUARD, PROT_NONE), "mprotect: %s",
	       strerror(errno));
	pthread_barrier_wait(&running);
	pthread_barrier_wait(&over);
	for (i = 0; i < USED; i++)
		expect(frame[i] == CONTENT, "byte %zu of a stack is %#x", i,
		       frame[i]);
	return NULL;
}

struct stacks {
	char *base;
	int threads;
	pthread_t *ids;
};

/* Neither MADV_HUGEPAGE nor MAP_STACK, which has meant MADV_NOHUGEPAGE since 6.7. */
static void stacks_map(struct stacks *stacks)
{
	size_t size = stacks->threads * STACK;
	char *whole = mmap(NULL, size + 2 * STACK, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	expect(whole != MAP_FAILED, "mmap: %s", strerror(errno));
	stacks->base = (char *)(((uintptr_t)whole + STACK) & ~(STACK - 1));
	expect(!mprotect(stacks->base, size, PROT_READ | PROT_WRITE),
	       "mprotect: %s", strerror(errno));
}

static void stacks_start(struct stacks *stacks)
{
	pthread_attr_t attr;
	int i, error;

	stacks->ids = calloc(stacks->threads, sizeof(*stacks->ids));
	expect(stacks->ids, "no memory");
	pthread_barrier_init(&running, NULL, stacks->threads + 1);
	pthread_barrier_init(&over, NULL, stacks->threads + 1);
	pthread_attr_init(&attr);
	for (i = 0; i < stacks->threads; i++) {
		char *stack = stacks->base + i * STACK;

		error = pthread_attr_setstack(&attr, stack, STACK);
		expect(!error, "pthread_attr_setstack: %s", strerror(error));
		error = pthread_create(&stacks->ids[i], &attr, live, stack);
		expect(!error, "thread %d: %s", i, strerror(error));
	}
	pthread_barrier_wait(&running);
}

static void stacks_end(struct stacks *stacks)
{
	int i;

	pthread_barrier_wait(&over);
	for (i = 0; i < stacks->threads; i++)
		pthread_join(stacks->ids[i], NULL);
}

static double stacks_rss(const struct stacks *stacks)
{
	return smaps_kb("Rss", stacks->base, stacks->threads * STACK) *
	       (double)KB;
}

/* What a process with many threads finds out. The test shares this memory with it. */
struct found {
	const char *enabled;
	double rss_before, rss, memory;
	struct spent reclaim;
};

static void ask_for_all(size_t size)
{
	char text[32];
	int error;

	snprintf(text, sizeof(text), "%zu", size);
	error = cgroup_write("memory.reclaim", text);
	/* There is not that much to give back. */
	expect(!error || error == -EAGAIN, "memory.reclaim: %s",
	       strerror(-error));
}

static void run_threads(void *arg)
{
	struct stacks stacks = { .threads = bench_thps() };
	struct found *found = arg;

	knob_set("enabled", found->enabled);
	stacks_map(&stacks);
	stacks_start(&stacks);
	found->rss_before = stacks_rss(&stacks);
	found->reclaim = clock_start();
	ask_for_all(stacks.threads * STACK);
	found->reclaim = clock_stop(found->reclaim);
	found->rss = stacks_rss(&stacks);
	found->memory = cgroup_number("memory.current");
	stacks_end(&stacks);
}

static struct found run_with(const char *enabled)
{
	struct found *found = mmap(NULL, sizeof(*found), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	expect(found != MAP_FAILED, "mmap: %s", strerror(errno));
	found->enabled = enabled;
	helper_join(helper_start(run_threads, found));
	return *found;
}

static void stacks(void)
{
	struct found never, always;
	long thps;

	set_threshold(USUAL_THRESHOLD);
	cgroup_set("memory.swap.max", "0");
	never = run_with("never");
	thps = counter("thp_fault_alloc");
	always = run_with("always");
	thps = counter("thp_fault_alloc") - thps;
	expect(thps >= bench_thps(), "%ld huge pages for %d stacks", thps,
	       bench_thps());
	figure("never", never.rss_before, "bytes");
	figure("always", always.rss_before, "bytes");
	figure("rss", always.rss, "bytes");
	figure("over_never", always.rss / never.rss_before, "share");
	figure("memory_never", never.memory, "bytes");
	figure("memory", always.memory, "bytes");
	figure("thps", thps, "thps");
	figure_spent("reclaim", always.reclaim);
}

static const struct test tests[] = {
	TEST("stacks", stacks, .seconds = PATIENCE),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
