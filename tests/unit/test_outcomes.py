"""How the gate evaluates selftest output: every required test must have run and passed."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.kernel.results import Results
from tools.thp_validate.errors import UserError
from tools.thp_validate.ktap import Report, parse
from tools.thp_validate.outcomes import MISSING, Required, evaluate, parse_required, reasons

REQUIRED = [Required("a"), Required("b", may_skip="one node")]


def reported(*results: str) -> dict[str, Report]:
    return {"thp:prog": parse(["KTAP version 1", f"1..{len(results)}", *results])}


def verdicts(reports: dict[str, Report]) -> list[tuple[str, str, bool]]:
    return [(outcome.name, outcome.verdict, outcome.accepted) for outcome in evaluate(REQUIRED, reports)]


def test_all_passed() -> None:
    reports = reported("ok 1 a", "ok 2 b")
    assert verdicts(reports) == [("a", "pass", True), ("b", "pass", True)]
    assert reasons(evaluate(REQUIRED, reports), reports) == []


def test_a_missing_test_fails_the_gate() -> None:
    reports = reported("ok 1 b")
    assert verdicts(reports) == [("a", MISSING, False), ("b", "pass", True)]
    assert any("a: missing" in reason for reason in reasons(evaluate(REQUIRED, reports), reports))


def test_no_output_at_all_fails_the_gate() -> None:
    assert [verdict for _, verdict, _ in verdicts({})] == [MISSING, MISSING]


def test_a_skip_needs_an_allowance() -> None:
    reports = reported("ok 1 a # SKIP no debugfs", "ok 2 b # SKIP one NUMA node")
    assert verdicts(reports) == [("a", "skip", False), ("b", "skip", True)]


def test_a_failure_of_a_test_nobody_requires_counts_too() -> None:
    reports = reported("ok 1 a", "ok 2 b", "not ok 3 extra")
    assert ("extra", "fail", False) in verdicts(reports)


def test_a_defect_of_the_output_counts_though_all_tests_passed() -> None:
    reports = {"thp:prog": parse(["KTAP version 1", "ok 1 a", "ok 2 b"])}
    assert reasons(evaluate(REQUIRED, reports), reports) == ["thp:prog: no plan (1..N) at nesting depth 0"]


def test_required_list() -> None:
    text = "# rows A11, A12\na\n\nb  # C8, may-skip: one node\n"
    assert parse_required(text, "list") == REQUIRED


@pytest.mark.parametrize(
    ("text", "message"),
    [("a\na\n", "listed twice"), ("a # may-skip\n", "without a reason"), ("# nothing\n", "requires no test")],
)
def test_bad_required_list(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_required(text, "list")


def test_results_fail_until_complete_and_free_of_reasons(tmp_path: Path) -> None:
    results = Results(tests=evaluate(REQUIRED, reported("ok 1 a", "ok 2 b # SKIP one NUMA node")))
    assert results.verdict == "fail"
    results.complete = True
    assert results.verdict == "pass"
    results.reasons.append("kernel splat: x")
    assert results.verdict == "fail"
    results.write(tmp_path)
    suite = ET.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("2", "0", "1")
    assert "gate: fail" in results.table()
    assert Results.read(tmp_path / "results.json") == results
