"""What `make bench-check` requires of a report, and what it stores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from bench_results import ABOUT, rounds, slowed

from bench import baseline, cases, compare, report
from bench.cases import CASES, COUNT, Case
from bench.goals import GOALS
from bench.kernels import PACKAGED
from scripts.console import UserError

COUNTED = [case.name for case in cases.counted()]


@pytest.fixture(autouse=True)
def store_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A baseline.json of all cases, and of the counts."""
    monkeypatch.setattr(baseline, "STORED", tmp_path / "baseline.json")
    baseline.store(gathered(CASES))
    baseline.store_counts(gathered(cases.counted()))
    return baseline.STORED


def gathered(selected: Sequence[Case], slower: str = "", factor: float = 1.0) -> dict[str, Any]:
    """Return a report in which kernel-thp is slower by a factor in one case."""
    changed = slowed(factor)
    return {**ABOUT, **report.gathered(selected, lambda case: (changed if case.name == slower else rounds)(case))}


def without(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**found, "cases": [case for case in found["cases"] if case["name"] not in names]}


def stored_now() -> dict[str, Any]:
    return baseline.load(baseline.STORED, "")


# The baseline in use


def test_every_stored_ratio_is_a_guarded_figure_of_a_case() -> None:
    stored = baseline.load(baseline.HERE / "baseline.json", "")
    guarded = {
        f"{case.name}:{test} {figure} {report.ratio_name(pair)}"
        for case in CASES
        for test in (*case.tests, compare.ALL)
        for figure in case.guard
        for pair in case.pairs
    }
    assert set(stored["ratios"]) <= guarded
    assert set(stored["met"]) <= {goal.text for goal in GOALS}


# Ratios and goals


def test_a_report_is_no_worse_than_itself() -> None:
    done = baseline.check(gathered(CASES), stored_now(), quick=False)
    count = len(stored_now()["ratios"])
    assert done == f"{count} of {count} stored ratios compared, none is worse"


@pytest.mark.parametrize("quick", [False, True])
def test_a_ratio_that_is_worse_fails_the_check(quick: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="figures or goals are worse than stored"):
        baseline.check(gathered(CASES, "fault", 2.0), stored_now(), quick)
    assert "fault:fault_1 free thp/stock: " in capsys.readouterr().out


def test_a_full_check_requires_every_stored_ratio() -> None:
    with pytest.raises(UserError, match=r"stored ratios were not measured, for example zero_drop\.whole:"):
        baseline.check(without(gathered(CASES), "zero_drop.whole"), stored_now(), quick=False)


def test_a_quick_check_requires_every_test_of_the_quick_cases() -> None:
    everything = gathered(CASES)
    baseline.check(without(everything, "zero_drop.split"), stored_now(), quick=True)
    for names in (["fault"], [case.name for case in CASES]):
        with pytest.raises(UserError, match="stored ratios were not measured"):
            baseline.check(without(everything, *names), stored_now(), quick=True)
    for case in everything["cases"]:
        case["rows"] = [row for row in case["rows"] if row["test"] != "fault_2"]
    with pytest.raises(UserError, match="for example fault:fault_2"):
        baseline.check(everything, stored_now(), quick=True)


def test_a_quick_check_compares_what_is_counted() -> None:
    slower = slowed(1.02, figures=("written",))
    good = {**ABOUT, **report.gathered(CASES, lambda case: rounds(case)[:1])}
    assert baseline.check(good, stored_now(), quick=True).endswith("none is worse")
    with pytest.raises(UserError, match="worse than stored"):
        baseline.check({**ABOUT, **report.gathered(CASES, lambda case: slower(case)[:1])}, stored_now(), quick=True)


@pytest.mark.parametrize("quick", [False, True])
def test_a_report_in_which_nothing_was_measured_fails_the_check(quick: bool) -> None:
    nothing = {**ABOUT, **report.gathered(CASES, lambda case: [])}
    with pytest.raises(UserError, match="stored ratios were not measured"):
        baseline.check(nothing, stored_now(), quick)


@pytest.mark.parametrize("quick", [False, True])
def test_a_goal_that_was_met_must_be_measured(quick: bool) -> None:
    """No ratio of the case is guarded, so only its goal says that it is not there."""
    found = gathered([case for case in CASES if case.name != "oom"])
    with pytest.raises(UserError, match="met were not measured, for example survives"):
        baseline.check(found, stored_now(), quick)


def test_a_ratio_that_the_baseline_has_not_is_mentioned(capsys: pytest.CaptureFixture[str]) -> None:
    stored = stored_now()
    kept = {name: ratio for name, ratio in stored["ratios"].items() if not name.startswith("zero_drop.split:")}
    baseline.check(gathered(CASES), {**stored, "ratios": kept}, quick=False)
    count = len(stored["ratios"]) - len(kept)
    said = f"NOT COMPARED: {count} ratios that the baseline has not, for example zero_drop.split:all"
    assert said in capsys.readouterr().out


def test_a_check_without_a_stored_ratio_is_an_error() -> None:
    with pytest.raises(UserError, match="no ratio was compared"):
        baseline.check(gathered(CASES), {"met": [], "ratios": {}}, quick=True)


def test_a_small_number_is_stored_as_exactly_as_a_large_one() -> None:
    assert (baseline.rounded(0.001953125), baseline.rounded(1.2345678)) == (0.0019531, 1.2346)


# Instruction counts


def test_counting_needs_only_the_packaged_kernel() -> None:
    selected = cases.counted()
    assert {kernel for case in selected for kernel in case.kernels} == {PACKAGED}
    assert all(case.machine == COUNT and not case.disk and case.rounds == 1 for case in selected)


def test_counting_writes_a_report_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "count" / "count.json"
    path.parent.mkdir()
    monkeypatch.setattr(report, "COUNTS", path)
    monkeypatch.setattr(report, "qemu_version", lambda: "qemu 1")
    report.write_counts(cases.counted(), rounds)
    assert list(path.parent.iterdir()) == [path]
    assert [case["name"] for case in baseline.load(path, "")["cases"]] == COUNTED


def test_counts_are_compared_with_stored_counts() -> None:
    guarded = sum(len(case.tests) * len(case.guard) for case in cases.counted())
    done = baseline.check_counts(gathered(cases.counted()), stored_now())
    assert done == f"{guarded} instruction counts, none is worse than stored"


@pytest.mark.parametrize("case", COUNTED)
def test_a_rise_of_instructions_fails_the_check(case: str) -> None:
    baseline.check_counts(gathered(cases.counted(), case, 1.005), stored_now())
    with pytest.raises(UserError, match="worse than stored"):
        baseline.check_counts(gathered(cases.counted(), case, 1.03), stored_now())


@pytest.mark.parametrize("case", COUNTED)
def test_counting_must_measure_all_of_its_cases(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="or missing"):
        baseline.check_counts(without(gathered(cases.counted()), case), stored_now())
    assert "not measured, was" in capsys.readouterr().out


def test_counts_of_another_compiler_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    found = gathered(cases.counted(), "shrink.count", 2)
    found["machine"] = {**found["machine"], "compiler": "gcc 2"}
    baseline.check_counts(found, stored_now())
    assert "NOT COMPARED" in capsys.readouterr().out
    with pytest.raises(UserError, match="worse than stored"):
        baseline.check_counts(without(found, "fault.count"), stored_now())


def test_a_baseline_without_counts_is_an_error() -> None:
    stored = {name: value for name, value in stored_now().items() if name != "counts"}
    with pytest.raises(UserError, match="has no instruction counts"):
        baseline.check_counts(gathered(cases.counted()), stored)


def test_storing_counts_leaves_ratios_and_goals_alone() -> None:
    before = stored_now()
    baseline.store_counts(gathered(cases.counted(), "shrink.count", 2))
    after = stored_now()
    assert (after["met"], after["ratios"]) == (before["met"], before["ratios"])
    assert after["counts"] != before["counts"]
