"""The list of required selftests and the programs name the same tests."""

from __future__ import annotations

import re

from scripts import check_headers
from scripts.console import ROOT

SELFTESTS = ROOT / "tests" / "selftests"
TEST = re.compile(r'TEST(?:_WITH)?\(\s*"([^"]+)"')
PROGRAM = re.compile(r"^TEST_GEN_PROGS [+:]= (\w+)$", re.MULTILINE)


def programs() -> list[str]:
    return PROGRAM.findall((SELFTESTS / "Makefile").read_text())


def test_every_test_is_required_and_exists() -> None:
    names = [name for program in programs() for name in TEST.findall((SELFTESTS / f"{program}.c").read_text())]
    assert len(names) == len(set(names)), "a name twice"
    asked = {name for name in names if "report_" not in name}  # those are not tests, see --report
    assert asked == check_headers.test_names(check_headers.REQUIRED)


def test_every_program_is_described() -> None:
    readme = (SELFTESTS / "README.md").read_text()
    assert [program for program in programs() if f"| `{program}` |" not in readme] == []
