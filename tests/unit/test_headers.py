"""The header rules are executable: the series keeps them, and each kind of breach is found."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import check_headers, lock, series
from scripts.console import ROOT, UserError

GOOD = """From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001
From: kernel-thp project <kernel-thp@example.org>
Date: Sat, 21 Nov 2026 01:00:00 +0000
Subject: mm/toy: give a page back whose subject is longer than one line of
 a mail may be

The problem, the approach, the effect.

Upstream: 1234567890123456789012345678901234567890 (v6.12, v6.13.1)
Pitfalls: A1, B2
Proved-by: toy.first,
 toy.second
Signed-off-by: kernel-thp project <kernel-thp@example.org>
---
 mm/toy.c | 1 +
"""
PITFALLS = {"A1", "B2"}
TESTS = {"toy.first", "toy.second"}
BREACHES = {
    "commit id kept": ("From 0000000000", "From 1234567890", "first line"),
    "invented author": ("From: kernel-thp project", "From: Some One", "From: is not"),
    "foreign subject": ("Subject: mm/toy:", "Subject: fs/toy:", "Subject:"),
    "full stop": ("a mail may be\n", "a mail may be.\n", "full stop"),
    "no body": ("The problem, the approach, the effect.\n\n", "", "no body"),
    "short commit": ("1234567890123456789012345678901234567890", "1234567", "Upstream:"),
    "no version": (" (v6.12, v6.13.1)", "", "Upstream:"),
    "none without reason": ("1234567890123456789012345678901234567890 (v6.12, v6.13.1)", "none", "Upstream:"),
    "unknown pitfall": ("A1, B2", "A1, Z9", "Z9 does not exist"),
    "unknown test": ("toy.second", "toy.third", "toy.third does not exist"),
    "unproved": ("Proved-by: toy.first,\n toy.second", "Proved-by: none", "Proved-by:"),
    "tag missing": ("Pitfalls: A1, B2\n", "", "exactly"),
    "tag of another vocabulary": ("Pitfalls:", "Fixes:", "exactly"),
    "tag twice": ("Pitfalls: A1, B2\n", "Pitfalls: A1\nPitfalls: B2\n", "exactly"),
    "invented signer": ("Signed-off-by: kernel-thp project", "Signed-off-by: Some One", "Signed-off-by: is not"),
}


def test_good_header_passes() -> None:
    assert check_headers.problems(GOOD, PITFALLS, TESTS) == []


@pytest.mark.parametrize("value", ["none (this is our own)", f"{'a' * 40} (v6.12), {'b' * 40} (v6.13)"])
def test_other_good_upstream_passes(value: str) -> None:
    assert check_headers.check_upstream(value) == []


@pytest.mark.parametrize("name", BREACHES)
def test_breach_is_found(name: str) -> None:
    old, new, message = BREACHES[name]
    assert old in GOOD
    found = check_headers.problems(GOOD.replace(old, new, 1), PITFALLS, TESTS)
    assert len(found) == 1
    assert message in found[0]


def test_series_keeps_the_rules() -> None:
    patches = series.Series(ROOT / "patches" / lock.read()[0].series).patches()
    pitfalls = check_headers.pitfall_ids(check_headers.PITFALLS)
    assert pitfalls
    assert check_headers.check(patches, pitfalls, check_headers.test_names(check_headers.REQUIRED)) == []


def test_rows_with_one_id_are_refused(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text("| A1 | one |\n| A2, A3 | two |\n| A3 | three |\n")
    with pytest.raises(UserError, match="two rows A3"):
        check_headers.pitfall_ids(readme)
