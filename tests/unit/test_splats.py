"""The splat scan: it finds what a kernel prints when it is broken, and its list of exceptions cannot rot."""

from __future__ import annotations

import datetime

import pytest

from lab import splats
from scripts.console import UserError
from tests.unit.splat_samples import defects, harmless

TODAY = datetime.date(2030, 1, 15)
START = "[    0.000000] Linux version 6.1.187-1.x86_64+thp\n"


def test_every_defect_of_a_log_is_found_with_its_line() -> None:
    lines = [line for lines in defects().values() for line in lines]
    found = splats.scan(START + "\r\n".join(lines), [])
    assert [(splat.line, splat.text) for splat in found] == list(enumerate(lines, 2))


def test_harmless_lines_are_not() -> None:
    assert splats.scan(START + "\n".join(harmless()), []) == []


def test_a_log_without_a_kernel_start_is_an_error() -> None:
    with pytest.raises(UserError, match="no kernel start"):
        splats.scan("", [])


def test_a_log_that_begins_later_needs_none() -> None:
    assert [splat.text for splat in splats.scan("[ 2.0] BUG: a\n", [], from_start=False)] == ["[ 2.0] BUG: a"]


def test_an_exception_covers_its_line_only() -> None:
    exceptions = splats.parse_allowed("BUG: (?:a|b) known \\d+ | a test | 2030-01-15", TODAY, "list")
    log = START + "[ 1.0] BUG: b known 7\n[ 2.0] BUG: another\n"
    assert [splat.text for splat in splats.scan(log, exceptions)] == ["[ 2.0] BUG: another"]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("BUG: x | known | 2030-01-14", "was allowed until 2030-01-14 only"),
        ("BUG: x | known", "not three fields"),
        ("BUG: x |  | 2031-01-01", "not three fields"),
        ("BUG: x | known | next year", "Invalid isoformat"),
        ("BUG: ( | known | 2031-01-01", "unterminated subpattern"),
    ],
)
def test_a_bad_or_expired_exception_is_an_error(line: str, complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        splats.parse_allowed(f"# why\n{line}\n", TODAY, "list")


def test_the_list_in_use_is_valid_today() -> None:
    splats.allowed()


def test_a_panic_is_told_from_other_splats() -> None:
    log = START + "[ 3.1] WARNING: CPU: 0 PID: 1 at mm/x.c:1\n[ 4.2] Kernel panic - not syncing: VFS\n[ 4.3] more\n"
    assert splats.fatal(log) == "[ 4.2] Kernel panic - not syncing: VFS"
    assert splats.fatal(START + "[ 3.1] WARNING: CPU: 0 PID: 1 at mm/x.c:1\n") is None
