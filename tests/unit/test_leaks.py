"""kmemleak's report: every record fails the gate, but for what is on a list with a reason and a date."""

from __future__ import annotations

import datetime

import pytest

from lab import splats
from scripts.console import UserError
from tests.kernel import leaks

TODAY = datetime.date(2030, 1, 15)
REPORT = """\
unreferenced object 0xffff888012345678 (size 64):
  comm "thp_churn", pid 612, jiffies 4294937296 (age 32.120s)
  hex dump (first 32 bytes):
    00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00  ................
  backtrace:
    [<ffffffff812ab3cd>] kmalloc_trace+0x2a/0x60
    [<00000000deadbeef>] mem_cgroup_alloc+0x3c/0x410
unreferenced object 0xffff888012345700 (size 64):
  comm "thp_churn", pid 613, jiffies 4294937296 (age 32.120s)
  backtrace:
    [<ffffffff812ab3cd>] kmalloc_trace+0x2a/0x60
    [<00000000deadbeef>] mem_cgroup_alloc+0x3c/0x410
unreferenced object 0xffff888012349900 (size 32):
  comm "udevd", pid 200, jiffies 4294937000 (age 99.000s)
  backtrace:
    kstrdup+0x2a/0x60
    known_offender.isra.0+0x3c/0x410
"""


def test_records_are_counted_by_their_origin() -> None:
    assert leaks.leaks(REPORT, []) == [
        "2 unreferenced object(s) from kmalloc_trace < mem_cgroup_alloc",
        "1 unreferenced object(s) from kstrdup < known_offender.isra.0",
    ]


def test_an_exception_covers_its_origin_only() -> None:
    exceptions = splats.parse_allowed("< known_offender | a test | 2030-01-15", TODAY, "list")
    assert leaks.leaks(REPORT, exceptions) == ["2 unreferenced object(s) from kmalloc_trace < mem_cgroup_alloc"]


def test_a_record_without_a_stack_is_a_leak_too() -> None:
    report = REPORT.splitlines()[0]
    assert leaks.leaks(report, []) == ["1 unreferenced object(s) from no stack recorded"]


def test_no_record_is_no_leak() -> None:
    assert leaks.leaks("", []) == []


def test_another_format_is_an_error_and_no_pass() -> None:
    with pytest.raises(UserError, match="kmemleak's report begins with `lost object"):
        leaks.leaks("lost object 0x1\n", [])


def test_the_list_in_use_is_valid_today() -> None:
    splats.allowed(leaks.ALLOWED)
