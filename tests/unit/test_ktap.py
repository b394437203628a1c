"""The KTAP reader: each case is a directory with an output, the verdicts it holds, and the problems it must raise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.thp_validate.ktap import parse

CASES = Path(__file__).resolve().parent / "ktap"


@pytest.mark.parametrize("case", sorted(path.name for path in CASES.iterdir()))
def test_case(case: str) -> None:
    report = parse((CASES / case / "output.txt").read_text().splitlines())
    verdicts = [f"{leaf.verdict} {leaf.name} ({leaf.reason})".replace(" ()", "") for leaf in report.leaves()]
    assert verdicts == (CASES / case / "verdicts.txt").read_text().splitlines()
    wanted = (CASES / case / "problems.txt").read_text().splitlines()
    assert len(report.problems) == len(wanted), report.problems
    for problem, fragment in zip(report.problems, wanted):
        assert fragment in problem


def test_every_prefix_of_a_good_output_is_a_problem() -> None:
    lines = (CASES / "nested-kselftest" / "output.txt").read_text().splitlines()
    assert not parse(lines).problems
    for end in range(len(lines)):
        assert parse(lines[:end]).problems, f"cut after {end} lines"


def test_time_of_a_test_is_the_time_since_the_result_before() -> None:
    lines = ["KTAP version 1", "1..2", "ok 1 first", "ok 2 second"]
    report = parse(lines, [0.5, 0.5, 2.0, 2.5])
    assert [leaf.seconds for leaf in report.leaves()] == [2.0, 0.5]
