"""The KTAP reader: each case is a file with an output, the verdicts in it, and the problems it must raise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.thp_validate.ktap import parse

CASES = Path(__file__).resolve().parent / "ktap"


def read(case: str) -> tuple[list[str], list[str], list[str]]:
    """Return the lines of the output, of the verdicts and of the problems; of a problem, a part is enough."""
    lines = (CASES / f"{case}.txt").read_text().splitlines()
    verdicts, problems = lines.index("=== verdicts"), lines.index("=== problems")
    return lines[:verdicts], lines[verdicts + 1 : problems], lines[problems + 1 :]


@pytest.mark.parametrize("case", sorted(path.stem for path in CASES.iterdir()))
def test_case(case: str) -> None:
    output, verdicts, problems = read(case)
    report = parse(output)
    found = [f"{leaf.verdict} {leaf.name} ({leaf.reason})".replace(" ()", "") for leaf in report.leaves()]
    assert found == verdicts
    assert len(report.problems) == len(problems), report.problems
    for problem, fragment in zip(report.problems, problems):
        assert fragment in problem


def test_every_prefix_of_a_good_output_is_a_problem() -> None:
    lines, _, _ = read("nested-kselftest")
    assert not parse(lines).problems
    for end in range(len(lines)):
        assert parse(lines[:end]).problems, f"cut after {end} lines"


def test_time_of_a_test_is_the_time_since_the_result_before() -> None:
    lines = ["KTAP version 1", "1..2", "ok 1 first", "ok 2 second"]
    report = parse(lines, [0.5, 0.5, 2.0, 2.5])
    assert [leaf.seconds for leaf in report.leaves()] == [2.0, 0.5]
