"""The report of the benchmark is self-contained and complete, and says which goals are met."""

from __future__ import annotations

import re
import xml.dom.minidom
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bench_results import ABOUT, by_name, rounds

from bench import cases, goals, page, plain_text, plots, report
from bench.cases import CASES
from bench.goals import GOALS, MET, MISSED, UNKNOWN
from bench.kernels import STOCK, THP, UPSTREAM
from bench.ratios import Row
from bench.results import Boot

SELECTED = [by_name(name) for name in ("shrink.count", "fault", "oom", "zero_drop.split.count")]
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
    assert " -m 2048 " in line and "BENCH_MIB=64'" in line
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
    assert not goal.over or (goal.of, goal.over) in case.pairs


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


def test_nothing_on_both_kernels_is_not_more_than_on_the_other() -> None:
    goal = replace(GOALS[0], most=1.5)
    for value, other, verdict in ((0.0, 0.0, MET), (3.0, 0.0, UNKNOWN), (3.0, 1.0, MISSED)):
        row = Row(goal.case, goal.test, goal.figure, "pages", {THP: [value], goal.over: [other]})
        assert goals.evaluate(goal, [row]).verdict == verdict


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


def test_every_case_is_in_the_report_of_all() -> None:
    everything = report.gathered(CASES, lambda case: [])
    assert [case["name"] for case in everything["cases"]] == [case.name for case in CASES]
    assert {case["machine"] for case in everything["cases"]} == {"wall", "count"}
