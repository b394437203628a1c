"""required.txt and the programs name the same tests: a test left out of the list could be skipped unnoticed."""

from __future__ import annotations

import re

from scripts import check_headers
from tests.programs import SELFTESTS, TEST

PROGRAM = re.compile(r"^TEST_GEN_PROGS [+:]= (\w+)$", re.MULTILINE)


def test_every_test_is_required_and_exists() -> None:
    programs = PROGRAM.findall((SELFTESTS / "Makefile").read_text())
    names = [name for program in programs for name in TEST.findall((SELFTESTS / f"{program}.c").read_text())]
    assert len(names) == len(set(names)), "a name twice"
    tests = {name for name in names if "report_" not in name}  # --report runs the others, which are no tests
    assert tests == check_headers.test_names(check_headers.REQUIRED)
