// SPDX-License-Identifier: GPL-2.0
/* A huge page keeps its place in the queue when it moves to another node. */
#include <errno.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "thp_util.h"

static void waiting_kept(void)
{
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(4, SPARSE);
	expect_queued(4);
	area_migrate(&area);
	expect(area_huge(&area) == 4, "migration split some");
	expect_queued(4);
	trigger();
	expect_queued(0);
	expect_split(&area);
}

static void partial_kept(void)
{
	struct area area;

	set_threshold(511);
	area = area_alloc(4, DENSE);
	area_make_partial(&area);
	area_migrate(&area);
	expect_queued(area_whole(&area));
	trigger();
	expect(!area_whole(&area), "%d of 4 are not split", area_whole(&area));
	expect_queued(0);
	area_verify(&area);
}

/* A huge page found in use on one node counts as in use on the other. */
static void used_not_rescanned(void)
{
	struct area area;
	long scanned;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(4, DENSE);
	trigger();
	expect_queued(0);
	scanned = counter(SCANNED);
	area_migrate(&area);
	expect_queued(0);
	trigger();
	expect(counter(SCANNED) == scanned, "rescanned");
	expect_whole(&area, "in use");
}

/* But it can still be rescanned. */
static void used_is_rescanned(void)
{
	struct area area;

	set_threshold(511);
	area = area_alloc(4, SPARSE);
	trigger();
	expect_queued(0);
	area_migrate(&area);
	set_threshold(USUAL_THRESHOLD);
	expect_queued(4);
	trigger();
	expect_split(&area);
}

/*
 * The progress of the other queue does not delay its rescan: neither before nor
 * after the first few huge pages were rescanned.
 */
static void used_stays_due(long nr_rescanned)
{
	struct area area;

	set_threshold(511);
	area = area_alloc(4, SPARSE);
	trigger();
	expect_queued(0);
	set_threshold(USUAL_THRESHOLD);
	if (nr_rescanned)
		queue_scan(nr_rescanned);
	area_migrate(&area);
	expect_queued(4 - nr_rescanned);
	trigger();
	expect_split(&area);
}

/* --- shared with a child --- */

struct sharer {
	pid_t pid;
	int release[2];
};

static void share_until_released(void *release)
{
	hear(*(int *)release);
}

/*
 * A child maps each huge page as a whole, this process maps it by PTEs, and
 * migration has restored both mappings, as it also does when it fails.
 */
static struct sharer share_and_migrate(struct area *area)
{
	struct sharer child;

	expect(!pipe(child.release), "pipe: %s", strerror(errno));
	child.pid = helper_start(share_until_released, &child.release[0]);
	area_map_by_ptes(area);
	area_migrate(area);
	return child;
}

static void release(struct sharer child)
{
	tell(child.release[1]);
	helper_join(child.pid);
}

static void shared_not_pinned(void)
{
	struct sharer child;
	struct area area;

	set_threshold(USUAL_THRESHOLD);
	area = area_alloc(4, SPARSE);
	child = share_and_migrate(&area);
	trigger();
	expect_split(&area);
	release(child);
}

/* Partially mapped once the child has ended, which nothing notices. */
static void shared_then_partial_when_off(void)
{
	struct sharer child;
	struct area area;

	knob_set("shrink_underused", "0");
	area = area_alloc(4, DENSE);
	child = share_and_migrate(&area);
	area_make_partial(&area);
	trigger();
	expect(area_whole(&area) == 4, "split although a child maps it whole");
	release(child);
	end_wait();
	trigger();
	expect(!area_whole(&area), "%d of 4 are not split", area_whole(&area));
	area_verify(&area);
}

/* --- races --- */

#define ROUNDS		10
#define RACE_THPS	8

static atomic_bool stop;

static void *migrate_all_the_time(void *arg)
{
	const struct area *area = arg;
	int thp, node = 0;

	while (!atomic_load(&stop)) {
		node = !node;
		for (thp = 0; thp < area->thps; thp++) {
			void *page = area_thp(area, thp);
			int status;

			syscall(SYS_move_pages, 0, 1L, &page, &node, &status,
				MPOL_MF_MOVE);
		}
	}
	return NULL;
}

static void *scan_all_the_time(void *unused)
{
	(void)unused;
	while (!atomic_load(&stop))
		trigger();
	return NULL;
}

/* Partially unmapped during migration and a scan: must not be lost. */
static void partial_while_moved(void)
{
	void *(*disturb[])(void *) = { migrate_all_the_time, scan_all_the_time };
	pthread_t threads[ARRAY_SIZE(disturb)];
	int round, thp;
	size_t i;

	set_threshold(USUAL_THRESHOLD);
	for (round = 0; round < ROUNDS; round++) {
		struct area area = area_alloc(RACE_THPS, DENSE);

		other_node(area_thp(&area, 0));
		atomic_store(&stop, false);
		for (i = 0; i < ARRAY_SIZE(disturb); i++)
			expect(!pthread_create(&threads[i], NULL, disturb[i],
					       &area), "no thread");
		for (thp = RACE_THPS - 1; thp >= 0; thp--) {
			usleep(20000);
			area_drop_page(&area, thp * THP_PAGES + 100);
		}
		atomic_store(&stop, true);
		for (i = 0; i < ARRAY_SIZE(disturb); i++)
			pthread_join(threads[i], NULL);
		end_wait();
		for (i = 0; i < 3; i++)
			trigger();
		expect(!area_whole(&area), "round %d: %d of %d forgotten",
		       round, area_whole(&area), RACE_THPS);
		expect_queued(0);
		area_verify(&area);
		area_free(&area);
	}
}

/* --- in two page tables --- */

#define HALF_SIZE	(THP_SIZE / 2)
#define STRADDLE_ROUNDS	200

/*
 * Three huge pages, moved by half of one: each lies in two page tables, and the
 * second page table has halves of two. Another huge page can replace these.
 */
struct straddling {
	struct area area;
	char *table;		/* what the second page table maps */
	char *half;		/* the rest of the second huge page */
};

static struct straddling straddle(void)
{
	struct area area = area_alloc(3, DENSE), room = area_map(4);
	char *target = room.base + HALF_SIZE;

	expect(mremap(area.base, area_size(&area), area_size(&area),
		      MREMAP_MAYMOVE | MREMAP_FIXED, target) == target,
	       "mremap: %s", strerror(errno));
	area.base = target;
	return (struct straddling) {
		.area = area,
		.table = area_thp(&room, 1),
		.half = area_thp(&room, 2),
	};
}

/* Maps one huge page where there were two halves. */
static void table_replace(const struct straddling *straddling)
{
	char *table = straddling->table;

	expect(!madvise(table, THP_SIZE, MADV_DONTNEED), "MADV_DONTNEED: %s",
	       strerror(errno));
	*table = 1;
	expect(!madvise(table, THP_SIZE, MADV_COLLAPSE), "MADV_COLLAPSE: %s",
	       strerror(errno));
}

/* A page table again, without a page in it. */
static void table_empty(const struct straddling *straddling)
{
	char *table = straddling->table;

	expect(!madvise(table, HALF_SIZE, MADV_DONTNEED) &&
	       !madvise(table + HALF_SIZE, HALF_SIZE, MADV_DONTNEED),
	       "MADV_DONTNEED: %s", strerror(errno));
}

static void expect_half(const struct straddling *straddling)
{
	struct area half = straddling->area;
	int i;

	for (i = 0; i < THP_PAGES / 2; i++)
		expect(!page_has(straddling->half + i * PAGE_SIZE, PM_SWAP),
		       "page %d of the half was left unmapped", i);
	/* The second half of the second huge page. */
	half.live += THP_PAGES * 3 / 2;
	half.origin += THP_SIZE * 3 / 2;
	half.base = straddling->half;
	for (i = 0; i < THP_PAGES / 2; i++)
		area_verify_page(&half, i);
}

static void migrate_half(const struct straddling *straddling)
{
	void *page = straddling->half;
	int node = other_node(page), status;

	syscall(SYS_move_pages, 0, 1L, &page, &node, &status, MPOL_MF_MOVE);
}

/* Its second half is found behind the other huge page, to be moved and split. */
static void straddling(void)
{
	struct straddling straddling = straddle();
	void *page = straddling.half;
	int node = other_node(page);

	set_threshold(511);
	table_replace(&straddling);
	expect(is_compound(page), "split already");
	migrate_half(&straddling);
	expect(node_of(page) == node, "the half behind another huge page stays");
	expect_half(&straddling);
	trigger();
	expect(!is_compound(page), "not split behind another huge page");
	expect_half(&straddling);
}

static void *migrate_half_all_the_time(void *straddling)
{
	while (!atomic_load(&stop))
		migrate_half(straddling);
	return NULL;
}

/* The other huge page appears, and goes, while it is moved. */
static void straddling_while_moved(void)
{
	struct straddling straddling = straddle();
	long before = counter("thp_migration_success");
	pthread_t thread;
	int i;

	set_threshold(511);
	other_node(straddling.half);
	expect(!pthread_create(&thread, NULL, migrate_half_all_the_time,
			       &straddling), "no thread");
	for (i = 0; i < STRADDLE_ROUNDS; i++) {
		table_replace(&straddling);
		usleep(i % 10 * 500);
		table_empty(&straddling);
		usleep(i % 7 * 500);
	}
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	expect(counter("thp_migration_success") > before, "never moved");
	expect_half(&straddling);
}

static const struct test tests[] = {
	TEST("migration.waiting_kept", waiting_kept),
	TEST("migration.partial_kept", partial_kept),
	TEST("migration.used_not_checked_again", used_not_rescanned),
	TEST("migration.used_is_rescanned", used_is_rescanned),
	TEST_WITH("migration.used_stays_due", used_stays_due, 0),
	TEST_WITH("migration.used_stays_due_midway", used_stays_due, 1),
	TEST("migration.shared_not_pinned", shared_not_pinned),
	TEST("migration.shared_then_partial_when_off",
	     shared_then_partial_when_off),
	TEST("migration.partial_while_moved", partial_while_moved,
	     .seconds = 90),
	TEST("migration.straddling", straddling),
	TEST("migration.straddling_while_moved", straddling_while_moved,
	     .seconds = 90),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
