"""What became of each test that ran on a kernel booted directly, and whether a program ended as it reported.

Tests read KTAP by the parser of thp-validate: a second one might see something else than operators do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab import direct_boot
from tools.thp_validate import ktap

# Exit codes of a selftest, as kselftest knows them.
PASSED, FAILED, SKIPPED = 0, 1, 4


@dataclass(frozen=True)
class Verdict:
    """`pass`, `fail` and `skip` are the test's own words; `lost`: the kernel died or hung."""

    verdict: str
    reason: str


def read_console(console: Path, plan: Mapping[str, Sequence[str]]) -> dict[str, Verdict]:
    """Return what each test reported; a test that was to run and reported nothing is lost.

    A program may have words of its own, before those that name tests.
    """
    printed = direct_boot.outputs(console)
    why = direct_boot.why_dead(console) or "the kernel hung or the program died"
    found = {}
    for name, tests in plan.items():
        reported = {test.name: test for test in ktap.parse(printed.get(name.partition(" ")[0], [])).leaves()}
        for test in tests:
            result = reported.get(test)
            found[test] = Verdict(result.verdict, result.reason) if result else Verdict("lost", why)
    return found


def parse_ended(lines: Sequence[str], seconds: Sequence[float], code: int) -> ktap.Report:
    """Parse the output of a program that ended with this exit code, which has to be the one that fits the output."""
    report = ktap.parse(lines, seconds)
    verdicts = {test.verdict for test in report.leaves()}
    fits = FAILED if ktap.FAIL in verdicts else SKIPPED if verdicts == {ktap.SKIP} else PASSED
    if code != fits:
        report.problems.append(f"ended with exit code {code}, but {fits} fits its output")
    return report
