"""The report of the benchmark is self-contained, and `make bench-check` notices a ratio that has risen."""

from __future__ import annotations

import copy
import re
import xml.dom.minidom
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_results import by_name, rounds

from bench import baseline, cases, goals, page, plain_text, plots, report
from bench.cases import CASES, COUNT
from bench.goals import GOALS, MET, MISSED, UNKNOWN
from bench.kernels import PACKAGED, STOCK, THP, UPSTREAM
from bench.ratios import Row
from bench.results import Boot
from scripts.console import UserError

SELECTED = [by_name(name) for name in ("shrink.count", "fault", "oom", "zero_drop.split.count")]
ABOUT = {"made": "now", "machine": {"processors": 2, "qemu": "qemu 1", "compiler": "gcc 1"}}
KERNEL = {"name": STOCK, "label": STOCK, "version": "6.1.1", "key": "0123", "lacks": ["CONFIG_X=y"]}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    return {**ABOUT, "kernels": [KERNEL], **report.gathered(SELECTED, rounds)}


@pytest.fixture(scope="module")
def html(found: dict[str, Any]) -> str:
    return page.render(found)


def test_the_page_is_self_contained(html: str) -> None:
    assert not re.search(r"<(?:script|link|img|iframe|object)\b", html)
    # XML namespaces, which no browser fetches.
    assert set(re.findall(r"https?://[^\"'<> ]+", html)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert all(target.startswith("#") for target in re.findall(r'href="([^"]*)"', html))


def test_the_pictures_of_the_page_are_complete(html: str) -> None:
    pictures = re.findall(r"<svg.*?</svg>", html, re.DOTALL)
    # One for the goals, one for each case.
    assert len(pictures) == 1 + len(SELECTED)
    for picture in pictures:
        xml.dom.minidom.parseString(picture)


def test_the_page_states_the_limits_of_emulation_and_the_options_a_kernel_lacks(html: str) -> None:
    for part in ("does not show effects of the TLB", "CONFIG_X=y", "6.1.1"):
        assert part in html


def test_each_result_has_the_command_that_repeats_it(found: dict[str, Any], html: str) -> None:
    for case in found["cases"]:
        for row in case["rows"]:
            assert row["command"] == f"make bench ONLY={case['name']}:{row['test']} FORCE=1"
            assert row["command"] in html
            assert cases.chosen(f"{case['name']}:{row['test']}")


def test_the_report_has_instructions_where_a_nanosecond_is_one(found: dict[str, Any]) -> None:
    units = {case["name"]: {row["figure"]: row["unit"] for row in case["rows"]} for case in found["cases"]}
    assert units["shrink.count"]["per_thp_cpu"] == "instructions"
    assert units["fault"]["free"] == "ns"


def test_the_report_has_the_machine_of_the_case() -> None:
    line = report.machine_line(by_name("fragment.madvise"))
    assert " -m 1024 " in line and "BENCH_MIB=192'" in line
    assert ",file=swap.img " in report.machine_line(by_name("swapin"))


def test_tests_without_figures_are_listed_once_by_reason(found: dict[str, Any]) -> None:
    case = by_name("shrink")
    skipped = Boot("", 1.0, {"sparse_1": ("skip", "no shrinker"), "sparse_40": ("skip", "no shrinker")}, {})
    entry = report.case_entry(case, [{STOCK: skipped}, {STOCK: skipped}], [])
    assert [gone["test"] for gone in entry["missing"]] == ["sparse_1", "sparse_40"]
    assert "<li>stock: sparse_1, sparse_40: skip: no shrinker</li>" in page.section(entry)


def test_a_case_that_was_not_measured_has_the_command_that_does() -> None:
    entry = report.case_entry(by_name("shrink"), [], [])
    assert "make bench ONLY=shrink FORCE=1" in page.section(entry)
    assert plots.svg(plots.figure_of(entry)) == ""


def test_the_report_is_written_beside_its_data(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("REPORT", "PAGE", "TABLE"):
        monkeypatch.setattr(report, name, tmp_path / name)
    monkeypatch.setattr(report, "kernel_entries", lambda selected: [KERNEL])
    monkeypatch.setattr(report, "qemu_version", lambda: "qemu 1")
    report.write(SELECTED[3:], rounds)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["PAGE", "REPORT", "TABLE"]


def test_the_table_has_all_goals_with_their_commands(found: dict[str, Any]) -> None:
    lines = plain_text.markdown(found).splitlines()
    assert len(lines) == 2 + len(GOALS)
    assert all("`make bench ONLY=" in line for line in lines[2:])


def test_a_terminal_shows_every_case_that_was_chosen(found: dict[str, Any]) -> None:
    text = plain_text.terminal(found)
    assert all(case.title in text for case in SELECTED)


# Goals


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.text)
def test_a_goal_is_about_a_measured_figure(goal: goals.Goal) -> None:
    case = by_name(goal.case)
    assert goal.test in case.tests and goal.figure in case.figures
    assert not goal.over or (THP, goal.over) in case.pairs


@pytest.mark.parametrize(("thp", "verdict"), [(49.0, MET), (50.0, MET), (51.0, MISSED), (None, UNKNOWN)])
def test_the_median_decides_about_a_goal(thp: float | None, verdict: str) -> None:
    goal = replace(GOALS[0], most=0.5)
    row = Row(goal.case, goal.test, goal.figure, "ns", {THP: [thp], UPSTREAM: [100.0]})
    assert goals.evaluate(goal, [row]).verdict == verdict


def test_a_goal_can_be_a_value() -> None:
    goal = next(goal for goal in GOALS if not goal.over and not goal.before)
    for value, verdict in ((1.0, MET), (0.0, MISSED)):
        assert (
            goals.evaluate(goal, [Row(goal.case, goal.test, goal.figure, "count", {THP: [value]})]).verdict == verdict
        )


def test_a_goal_can_be_a_part_of_what_was_measured_before() -> None:
    goal = goals.Goal("less", "shrink.count", "dense_103", "per_thp_cpu", before=2000, most=0.1)
    assert goal.wish == "at most 0.1 of 2,000"
    for value, verdict in ((200.0, MET), (201.0, MISSED)):
        row = Row(goal.case, goal.test, goal.figure, "ns", {THP: [value, value], UPSTREAM: [1.0, 1.0]})
        outcome = goals.evaluate(goal, [row])
        assert (outcome.verdict, outcome.found and outcome.found.median) == (verdict, value / 2000)


def test_what_is_swapped_out_whole_or_split_has_the_same_goals_and_the_shipped_one_comes_first() -> None:
    whole, split = ([goal for goal in GOALS if goal.case.startswith(f"zero_drop.{how}")] for how in ("whole", "split"))
    assert [(goal.test, goal.figure) for goal in whole] == [(goal.test, goal.figure) for goal in split]
    assert GOALS.index(whole[-1]) < GOALS.index(split[0])


# The baseline


def measured(median: float, least: float, most: float, machine: str = "wall") -> dict[str, Any]:
    ratio = {"median": median, "least": least, "most": most}
    row = {"test": "t", "figure": "f", "guarded": True, "ratios": {"thp/stock": ratio}, "command": "make bench"}
    other = {**row, "figure": "g", "guarded": False}
    return {"cases": [{"name": "c", "machine": machine, "rows": [row, other]}], "goals": []}


STORED = {"met": ["fast"], "ratios": {"c:t f thp/stock": {"median": 1.0, "least": 0.98, "most": 1.03}}}


@pytest.mark.parametrize(
    ("now", "worse"),
    [
        ((1.0, 0.9, 1.1), False),
        ((1.2, 1.02, 1.4), False),  # one round was as fast as before
        ((1.08, 1.05, 1.1), False),  # not by more than such a median moves
        ((1.15, 1.05, 1.2), True),
        ((0.5, 0.4, 0.6), False),
    ],
)
def test_a_ratio_has_risen_when_all_its_rounds_have(now: tuple[float, float, float], worse: bool) -> None:
    assert bool(baseline.regressions(measured(*now), STORED)) is worse


def test_instructions_have_a_smaller_tolerance() -> None:
    now = measured(1.05, 1.05, 1.05, "count")
    assert baseline.regressions(now, STORED) == [
        "c:t f thp/stock: 1.050 (1.050 to 1.050), was 1.000 (0.980 to 1.030); make bench"
    ]


def test_a_ratio_of_zero_may_not_rise() -> None:
    stored = {"met": [], "ratios": {"c:t f thp/stock": {"median": 0.0, "least": 0.0, "most": 0.0}}}
    assert not baseline.regressions(measured(0.005, 0.005, 0.005), stored)
    assert baseline.regressions(measured(0.02, 0.02, 0.02), stored)


def with_goal(**goal: object) -> dict[str, Any]:
    return {**measured(1, 1, 1), "goals": [{"text": "fast", "command": "make bench", **goal}]}


@pytest.mark.parametrize(("verdict", "worse"), [(MET, False), (MISSED, True), (UNKNOWN, False)])
def test_a_goal_that_was_met_stays_met(verdict: str, worse: bool) -> None:
    assert bool(baseline.regressions(with_goal(over="", verdict=verdict), STORED)) is worse


@pytest.mark.parametrize(("least", "most", "worse"), [(1.01, 1.05, False), (1.03, 1.05, True)])
def test_a_goal_is_no_longer_met_when_all_rounds_miss_it(least: float, most: float, worse: bool) -> None:
    found = {"median": 1.04, "least": least, "most": most}
    now = with_goal(over=STOCK, verdict=MISSED, found=found, most=1.02, least=None)
    assert bool(baseline.regressions(now, STORED)) is worse
    now = with_goal(over=STOCK, verdict=MISSED, found=found, most=None, least=least + 0.05 * worse)
    assert bool(baseline.regressions(now, STORED)) is worse


def test_a_stored_ratio_that_was_not_measured_is_named() -> None:
    assert baseline.unmeasured({"cases": [], "goals": []}, STORED["ratios"]) == ["c:t f thp/stock"]


def test_a_report_can_be_stored_and_is_no_worse_than_itself(
    found: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(baseline, "STORED", tmp_path / "baseline.json")
    baseline.store(found)
    stored = baseline.json.loads(baseline.STORED.read_text())
    assert stored["ratios"] and not baseline.unmeasured(found, stored["ratios"])
    assert not baseline.regressions(found, stored)


def test_every_stored_ratio_is_a_guarded_figure_of_a_case() -> None:
    stored = baseline.load(baseline.STORED, "")
    guarded = {
        f"{case.name}:{test} {figure} {report.ratio_name(pair)}"
        for case in CASES
        for test in case.tests
        for figure in case.guard
        for pair in case.pairs
    }
    assert set(stored["ratios"]) <= guarded
    assert set(stored["met"]) <= {goal.text for goal in GOALS}


# The subset of instruction counts, and what a check requires


@pytest.fixture
def store_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A baseline.json of all cases, and of the counts."""
    monkeypatch.setattr(baseline, "STORED", tmp_path / "baseline.json")
    baseline.store({**ABOUT, **report.gathered(CASES, rounds)})
    baseline.store_counts(counted_report())
    return baseline.STORED


def stored_now() -> dict[str, Any]:
    return baseline.load(baseline.STORED, "")


def counted_report() -> dict[str, Any]:
    return {**ABOUT, **report.gathered(cases.counted(), rounds)}


def raised(found: dict[str, Any], case: str, factor: float) -> dict[str, Any]:
    """Return a report in which kernel-thp got slower by a factor in one case."""
    changed: dict[str, Any] = copy.deepcopy(found)
    for row in (row for entry in changed["cases"] if entry["name"] == case for row in entry["rows"]):
        for spread in (*row["spread"].values(), *row["ratios"].values()):
            spread.update({name: value * factor for name, value in spread.items()})
    return changed


def without(found: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**found, "cases": [case for case in found["cases"] if case["name"] not in names]}


def test_counting_needs_only_the_packaged_kernel() -> None:
    selected = cases.counted()
    assert {kernel for case in selected for kernel in case.kernels} == {PACKAGED}
    assert all(case.machine == COUNT and not case.disk and case.rounds == 1 for case in selected)


def test_counting_writes_a_report_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "COUNTS", tmp_path / "count.json")
    monkeypatch.setattr(report, "qemu_version", lambda: "qemu 1")
    report.write_counts(cases.counted(), rounds)
    (written,) = tmp_path.iterdir()
    assert [case["name"] for case in baseline.load(written, "")["cases"]] == [case.name for case in cases.counted()]


def test_counts_are_compared_with_stored_counts(store_file: Path) -> None:
    guarded = sum(len(case.tests) * len(case.guard) for case in cases.counted())
    assert baseline.check_counts(counted_report(), stored_now()).startswith(f"{guarded} instruction counts")


@pytest.mark.parametrize("case", [case.name for case in cases.counted()])
@pytest.mark.parametrize(("factor", "worse"), [(1.005, False), (1.03, True)])
def test_a_rise_of_instructions_fails_the_check(case: str, factor: float, worse: bool, store_file: Path) -> None:
    found = raised(counted_report(), case, factor)
    if not worse:
        baseline.check_counts(found, stored_now())
        return
    with pytest.raises(UserError, match="worse than stored"):
        baseline.check_counts(found, stored_now())


@pytest.mark.parametrize("case", [case.name for case in cases.counted()])
def test_counting_must_measure_all_of_its_cases(case: str, store_file: Path) -> None:
    with pytest.raises(UserError, match=r"not measured|missing"):
        baseline.check_counts(without(counted_report(), case), stored_now())


def test_counts_of_another_compiler_are_not_compared(store_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = raised(counted_report(), "shrink.count", 2)
    found["machine"] = {**found["machine"], "compiler": "gcc 2"}
    baseline.check_counts(found, stored_now())
    assert "NOT COMPARED" in capsys.readouterr().out
    with pytest.raises(UserError, match="worse than stored"):
        baseline.check_counts(without(found, "fault.count"), stored_now())


def test_a_baseline_without_counts_is_an_error(store_file: Path) -> None:
    stored = {name: value for name, value in stored_now().items() if name != "counts"}
    with pytest.raises(UserError, match="has no instruction counts"):
        baseline.check_counts(counted_report(), stored)


def test_storing_counts_leaves_ratios_and_goals_alone(store_file: Path) -> None:
    before = stored_now()
    baseline.store_counts(raised(counted_report(), "shrink.count", 2))
    after = stored_now()
    assert (after["met"], after["ratios"]) == (before["met"], before["ratios"])
    assert after["counts"] != before["counts"]


def test_a_full_check_requires_every_stored_ratio(store_file: Path) -> None:
    everything = {**ABOUT, **report.gathered(CASES, rounds)}
    baseline.check(everything, stored_now(), quick=False)
    with pytest.raises(UserError, match="stored ratios were not measured, for example swapin:"):
        baseline.check(without(everything, "swapin"), stored_now(), quick=False)
    with pytest.raises(UserError, match="worse than stored"):
        baseline.check(raised(everything, "fault", 1.5), stored_now(), quick=False)


def test_a_quick_check_requires_the_quick_cases(store_file: Path) -> None:
    everything = {**ABOUT, **report.gathered(CASES, rounds)}
    baseline.check(without(everything, "swapin", "zero_drop.split"), stored_now(), quick=True)
    for names in (["fault"], [case.name for case in CASES]):
        with pytest.raises(UserError, match="stored ratios were not measured"):
            baseline.check(without(everything, *names), stored_now(), quick=True)


def test_a_check_without_a_stored_ratio_is_an_error() -> None:
    with pytest.raises(UserError, match="no ratio was compared"):
        baseline.check(measured(1, 1, 1), {"met": [], "ratios": {}}, quick=True)


def test_every_case_is_in_the_report_of_all() -> None:
    everything = report.gathered(CASES, lambda case: [])
    assert [case["name"] for case in everything["cases"]] == [case.name for case in CASES]
    assert {case["machine"] for case in everything["cases"]} == {"wall", "count"}
