// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel writes to memory that it holds by a plain reference, without a
 * mapping and without the lock of the page, while the shrinker looks for zeros
 * in it. What was written must not be taken for zeros.
 *
 * A cipher behind a socket (AF_ALG) writes its output that way, as direct reads
 * from NFS do: it takes its references when recv() begins and drops them when
 * the last byte is written.
 */
#include <errno.h>
#include <linux/if_alg.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "thp_util.h"

/* This often, or for so long: each time is a small chance on a busy machine. */
#define ROUNDS		100
#define SECONDS		30
/* A round ends when no PMD maps the huge page, at the latest after this. */
#define ROUND_SECONDS	1
/* The output begins at this page, behind a live one, and is up to this long. */
#define FROM		1
#define PAGES		16
/* Processes whose mappings the kernel looks at before it comes to ours. */
#define BYSTANDERS	600

struct cipher {
	pthread_t thread;
	atomic_bool stop;
	int socket;
	char *output;
	long calls, lost;
};

static char plain[PAGES * PAGE_SIZE], encrypted[PAGE_SIZE];

/* --- the cipher --- */

static int cipher_open(void)
{
	struct sockaddr_alg name = {
		.salg_family = AF_ALG,
		.salg_type = "skcipher",
		.salg_name = "ecb(aes)",
	};
	int fd = socket(AF_ALG, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int operation;

	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof(name)))
		skip("no ciphers for programs (CONFIG_CRYPTO_USER_API_SKCIPHER): %s",
		     strerror(errno));
	expect(!setsockopt(fd, SOL_ALG, ALG_SET_KEY, "sixteen bytes it", 16),
	       "no key: %s", strerror(errno));
	operation = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
	expect(operation >= 0, "accept: %s", strerror(errno));
	close(fd);
	return operation;
}

/* Has zeros encrypted. The output is the same for each block, and not zeros. */
static void cipher_run(int fd, char *output, size_t size)
{
	char control[CMSG_SPACE(sizeof(unsigned int))] = { 0 };
	struct iovec text = { plain, size };
	struct msghdr message = {
		.msg_iov = &text,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	unsigned int encrypt = ALG_OP_ENCRYPT;

	header->cmsg_level = SOL_ALG;
	header->cmsg_type = ALG_SET_OP;
	header->cmsg_len = CMSG_LEN(sizeof(encrypt));
	memcpy(CMSG_DATA(header), &encrypt, sizeof(encrypt));
	expect(sendmsg(fd, &message, 0) == (ssize_t)size, "sendmsg: %s",
	       strerror(errno));
	expect(read(fd, output, size) == (ssize_t)size, "no output: %s",
	       strerror(errno));
}

/* The time varies with the length. The memory is empty before and after. */
static void *cipher_all_the_time(void *arg)
{
	struct cipher *cipher = arg;

	while (!atomic_load(&cipher->stop)) {
		int pages = 1 + cipher->calls++ % PAGES, i;

		cipher_run(cipher->socket, cipher->output, pages * PAGE_SIZE);
		for (i = 0; i < pages; i++)
			cipher->lost += memcmp(cipher->output + i * PAGE_SIZE,
					       encrypted, PAGE_SIZE) != 0;
		memset(cipher->output, 0, pages * PAGE_SIZE);
	}
	return NULL;
}

/* --- bystanders --- */

static void wait_for_end(void *unused)
{
	(void)unused;
	for (;;)
		pause();
}

/*
 * Unmapping visits all mappings where the page could be, in the order of their
 * first page. So that a reference can be taken after the scan has looked for
 * references, and before it comes to our mapping, others have the same mapping
 * with one page more in front, and nothing in it.
 */
static void bystanders_start(const struct area *area, pid_t *pids)
{
	char *front = area->base - PAGE_SIZE;
	int i;

	expect(mmap(front, PAGE_SIZE, PROT_READ | PROT_WRITE, MAP_FIXED |
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == front &&
	       !madvise(front, PAGE_SIZE, MADV_HUGEPAGE), "mmap: %s",
	       strerror(errno));
	touch(front);
	for (i = 0; i < BYSTANDERS; i++)
		pids[i] = helper_start(wait_for_end, NULL);
	expect(!munmap(front, PAGE_SIZE), "munmap: %s", strerror(errno));
}

static void bystanders_stop(const pid_t *pids)
{
	int i;

	for (i = 0; i < BYSTANDERS; i++)
		kill(pids[i], SIGKILL);
	for (i = 0; i < BYSTANDERS; i++)
		waitpid(pids[i], NULL, 0);
}

/* --- the test --- */

static void output_kept(void)
{
	struct cipher cipher = { .socket = cipher_open() };
	struct area area = area_map(1);
	long split = counter(SPLIT);
	pid_t pids[BYSTANDERS];
	int round, scans = 0;
	double last, end;

	set_threshold(USUAL_THRESHOLD);
	cipher_run(cipher.socket, encrypted, PAGE_SIZE);
	cipher.output = area_page(&area, FROM);
	area_choose(&area, 0, 1, FIRST_BYTE);
	bystanders_start(&area, pids);
	last = now() + SECONDS;
	for (round = 0; round < ROUNDS && now() < last; round++) {
		area_fill_any(&area);
		expect(!madvise(area.base, THP_SIZE, MADV_COLLAPSE),
		       "MADV_COLLAPSE: %s", strerror(errno));
		atomic_store(&cipher.stop, false);
		expect(!pthread_create(&cipher.thread, NULL,
				       cipher_all_the_time, &cipher),
		       "no thread");
		end = now() + ROUND_SECONDS;
		for (; area_huge(&area) && now() < end; scans++) {
			end_wait();
			trigger();
		}
		atomic_store(&cipher.stop, true);
		pthread_join(cipher.thread, NULL);
		area_verify(&area);
		madvise(area.base, THP_SIZE, MADV_DONTNEED);
	}
	bystanders_stop(pids);
	split = counter(SPLIT) - split;
	note("%ld outputs in %d scans and %d rounds, %ld huge pages split: %ld pages lost",
	     cipher.calls, scans, round, split, cipher.lost);
	expect(split, "no huge page is split");
	expect(!cipher.lost, "%ld pages that the kernel has written are lost",
	       cipher.lost);
}

static const struct test tests[] = {
	TEST("zero_remap.cipher_output_kept", output_kept, .seconds = 120),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
