// SPDX-License-Identifier: GPL-2.0
/* The knobs and counters exist, and the knobs take valid values only. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "thp_util.h"

#define SWITCH		"shrink_underused"
#define THRESHOLD	"underused_max_ptes_none"
#define DIR		"/sys/kernel/mm/transparent_hugepage/"

static void expect_value(const char *knob, const char *want)
{
	char value[64];

	knob_read(knob, value, sizeof(value));
	expect(!strcmp(value, want), "%s is %s, not %s", knob, value, want);
}

static void expect_taken(const char *knob, const char *value, const char *back)
{
	knob_set(knob, value);
	expect_value(knob, back);
}

static void expect_refused(const char *knob, const char *value)
{
	char before[64];
	int error;

	knob_read(knob, before, sizeof(before));
	error = knob_write(knob, value);
	expect(error == -EINVAL, "%s: \"%s\" gives %s, not EINVAL", knob,
	       value, error ? strerror(-error) : "success");
	expect_value(knob, before);
}

/* sysfs ignores an empty write. */
static void empty_write(void)
{
	knob_write(SWITCH, "");
	expect_value(SWITCH, "1");
	knob_write(THRESHOLD, "");
	expect_value(THRESHOLD, "khugepaged");
}

static void expect_mode(const char *path)
{
	struct stat status;

	expect(!stat(path, &status), "%s: %s", path, strerror(errno));
	expect((status.st_mode & 07777) == 0644, "%s has mode %o", path,
	       status.st_mode & 07777);
}

static void modes(void)
{
	expect_mode(DIR SWITCH);
	expect_mode(DIR THRESHOLD);
}

static void switch_accepts(void)
{
	expect_taken(SWITCH, "0", "0");
	expect_taken(SWITCH, "1", "1");
	expect_taken(SWITCH, "0\n", "0");
}

static void threshold_accepts(void)
{
	expect_taken(THRESHOLD, "0", "0");
	expect_taken(THRESHOLD, "409", "409");
	expect_taken(THRESHOLD, "511\n", "511");
	expect_taken(THRESHOLD, "khugepaged", "khugepaged");
	expect_taken(THRESHOLD, "1", "1");
	expect_taken(THRESHOLD, "khugepaged\n", "khugepaged");
}

static const char * const bad_everywhere[] = {
	"-1", "512", " ", "\n", "99999999999999999999", "abc", "1 2",
	"khugepagedx", "khugepage", "4O9",
};

static void switch_refuses(void)
{
	size_t i;
	int value;

	for (value = 0; value < 2; value++) {
		knob_set_number(SWITCH, value);
		expect_refused(SWITCH, "2");
		expect_refused(SWITCH, "khugepaged");
		for (i = 0; i < ARRAY_SIZE(bad_everywhere); i++)
			expect_refused(SWITCH, bad_everywhere[i]);
	}
}

static void threshold_refuses(void)
{
	static const char * const before[] = { "khugepaged", "409" };
	size_t i, j;

	for (j = 0; j < ARRAY_SIZE(before); j++) {
		knob_set(THRESHOLD, before[j]);
		for (i = 0; i < ARRAY_SIZE(bad_everywhere); i++)
			expect_refused(THRESHOLD, bad_everywhere[i]);
	}
}

static void counters(void)
{
	static const char * const names[] = {
		"thp_underused_split_page", "thp_underused_scan_page",
		"thp_zero_subpages_dropped", "thp_swpin", "thp_swpin_fallback",
		"thp_swpin_fallback_charge",
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		expect(counter(names[i]) >= 0, "no counter %s",
		       names[i]);
}

static const struct test tests[] = {
	TEST("knobs.modes", modes),
	TEST("knobs.empty_write", empty_write),
	TEST("knobs.switch_accepts", switch_accepts),
	TEST("knobs.switch_refuses", switch_refuses),
	TEST("knobs.threshold_accepts", threshold_accepts),
	TEST("knobs.threshold_refuses", threshold_refuses),
	TEST("knobs.counters", counters),
};

int main(int argc, char **argv)
{
	return run_tests(argc, argv, tests, ARRAY_SIZE(tests));
}
