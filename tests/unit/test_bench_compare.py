"""`make bench-check` notices what has become worse: a count at once, a time beyond what times scatter."""

from __future__ import annotations

import random
from typing import Any

import pytest
from bench_results import ABOUT, by_name, rounds, slowed

from bench import baseline, compare, report
from bench.cases import CASES, WALL, Case
from bench.compare import EXACT, TIME, TIMES, Guarded, Ratio
from bench.goals import MET, MISSED, UNKNOWN
from bench.kernels import STOCK
from bench.ratios import Spread, of_least


def stored_from(found: dict[str, Any]) -> dict[str, Any]:
    ratios = {name: one.ratio._asdict() for name, one in compare.guarded(found).items()}
    return {"met": compare.goals_met(found), "ratios": ratios}


def gathered(*cases: Case) -> dict[str, Any]:
    return {**ABOUT, **report.gathered(cases, rounds)}


def worse(case: Case, factor: float, *tests: str, figures: tuple[str, ...] = ()) -> list[str]:
    """Return the names of the ratios that have risen if kernel-thp is slower by a factor, perhaps not in all tests."""
    now = {**ABOUT, **report.gathered([case], slowed(factor, tests, figures))}
    return [line.partition(": ")[0] for line in compare.regressions(now, stored_from(gathered(case)))]


# One ratio


def alone(kind: str, ratio: float, least: float, most: float) -> Guarded:
    return Guarded("c:t f thp/stock", kind, Ratio(ratio, least, most), "make bench")


@pytest.mark.parametrize(
    ("kind", "now", "risen"),
    [
        (EXACT, (1.035, 1.035, 1.035), True),
        (EXACT, (1.005, 1.005, 1.005), False),
        (EXACT, (1.2, 1.02, 1.3), False),  # a round is as good as before
        (EXACT, (0.5, 0.5, 0.5), False),
        (TIMES, (1.09, 1.05, 1.2), False),
        (TIMES, (1.15, 1.05, 1.2), True),
        (TIME, (1.45, 1.3, 1.6), False),
        (TIME, (1.6, 1.3, 1.7), True),
        (TIME, (1.6, 1.02, 1.7), False),
    ],
)
def test_a_ratio_has_risen_beyond_its_spread_and_tolerance(
    kind: str, now: tuple[float, float, float], risen: bool
) -> None:
    assert compare.risen(alone(kind, *now), Ratio(1.0, 0.98, 1.03)) is risen


@pytest.mark.parametrize(("now", "risen"), [(0.00195, False), (0.0021, True), (0.012, True)])
def test_a_small_ratio_has_no_more_room_than_a_large_one(now: float, risen: bool) -> None:
    assert compare.risen(alone(EXACT, now, now, now), Ratio(0.00195, 0.00195, 0.00195)) is risen


def test_a_ratio_of_zero_may_not_rise() -> None:
    assert compare.risen(alone(EXACT, 0.001, 0.001, 0.001), Ratio(0.0, 0.0, 0.0))
    assert not compare.risen(alone(EXACT, 0.0, 0.0, 0.0), Ratio(0.0, 0.0, 0.0))


# Times


def test_the_least_times_of_two_kernels_are_compared_whatever_two_rounds_say() -> None:
    steady, slow = [[(10.0, 30.0)], [(11.0, 20.0)], [(12.0, 21.0)]], [[(90.0, 22.0)], [(13.0, 80.0)]]
    assert of_least([*steady, *slow]) == Spread(10 / 20, 10 / 22, 12 / 21)
    assert of_least(steady[1:2]) == Spread(11 / 20, 11 / 20, 11 / 20)


def test_the_times_of_several_tests_have_the_geometric_mean_of_their_ratios() -> None:
    found = of_least([[(10.0, 20.0), (30.0, 15.0)], [(99.0, 25.0), (31.0, 14.0)]])
    assert found.median == pytest.approx((0.5 * 30 / 14) ** 0.5)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("shrink.count", {EXACT}),
        ("fault.count", {EXACT}),
        ("fault", {TIME}),
        ("zero_drop.whole", {EXACT, TIME, TIMES}),
    ],
)
def test_a_case_has_times_where_it_does_not_count(name: str, kinds: set[str]) -> None:
    assert {one.kind for one in compare.guarded(gathered(by_name(name))).values()} == kinds


def test_a_whole_case_is_compared_where_it_has_enough_tests_and_rounds() -> None:
    names = compare.guarded(gathered(by_name("zero_drop.split"), by_name("fault")))
    together = {name for name, one in names.items() if one.kind == TIMES}
    pairs = ("thp/stock", "thp/upstream")
    figures = ("pageout_time", "on_disk_time")
    assert together == {f"zero_drop.split:all {figure} {pair}" for figure in figures for pair in pairs}


@pytest.mark.parametrize(("count", "kinds"), [(3, {EXACT, TIME, TIMES}), (2, {EXACT}), (1, {EXACT})])
def test_times_of_few_rounds_are_not_compared(count: int, kinds: set[str]) -> None:
    short = {**ABOUT, **report.gathered([by_name("zero_drop.split")], lambda case: rounds(case)[:count])}
    assert {one.kind for one in compare.guarded(short).values()} == kinds


def scattered(seed: int, factor: float = 1.0) -> list[list[tuple[float, float]]]:
    """Return five rounds of eighteen tests: what other work adds to a time is a sixth of it on average."""
    chance = random.Random(seed)

    def time(slower: float) -> float:
        return slower * (1 + chance.expovariate(6))

    return [[(time(factor), time(1.0)) for _ in range(18)] for _ in range(5)]


def times_found(factor: float) -> float:
    """Return in which part of the comparisons a case was found worse."""
    found = 0
    for seed in range(100):
        now, stored = (of_least(scattered(2 * seed, factor)), of_least(scattered(2 * seed + 1)))
        found += compare.risen(Guarded("", TIMES, compare.of(now), ""), compare.of(stored))
    return found / 100


def test_a_case_that_takes_longer_is_found_and_times_that_only_scatter_are_not() -> None:
    assert times_found(1.0) == 0
    assert times_found(1.2) >= 0.9


# A report


@pytest.mark.parametrize("case", [case for case in CASES if case.guard], ids=lambda case: case.name)
def test_every_guarded_figure_of_every_test_is_compared(case: Case) -> None:
    expected = {
        f"{case.name}:{test} {figure} {report.ratio_name(pair)}"
        for test in case.tests
        for figure in case.guard
        for pair in case.pairs
    }
    assert expected <= set(worse(case, 3))


@pytest.mark.parametrize("figure", ["written", "stored"])
def test_what_is_counted_where_times_are_measured_is_exact(figure: str) -> None:
    case = by_name("zero_drop.whole")
    (test, *_) = case.tests
    assert worse(case, 1.02, test, figures=(figure,)) == [f"{case.name}:{test} {figure} thp/{over}" for over in OTHERS]
    assert worse(case, 1.005, figures=(figure,)) == []


OTHERS = ("stock", "upstream")


def test_a_rise_in_all_tests_of_a_case_is_found_before_that_in_one() -> None:
    case, times = by_name("zero_drop.split"), ("pageout_time", "on_disk_time")
    assert worse(case, 1.25, figures=times) == [
        f"{case.name}:all {figure} thp/{over}" for figure in times for over in OTHERS
    ]
    assert worse(case, 1.02, figures=times) == []
    (test, *_) = case.tests
    names = {name.partition(" ")[0] for name in worse(case, 2, test, figures=times)}
    assert f"{case.name}:{test}" in names and names <= {f"{case.name}:{test}", f"{case.name}:all"}


def test_instructions_are_exact() -> None:
    case = by_name("shrink.count")
    assert worse(case, 1.005) == []
    assert len(worse(case, 1.02)) == len(case.tests) * len(case.pairs)


def test_the_line_of_a_ratio_says_what_it_was_and_how_to_repeat_it() -> None:
    case = by_name("fault.count")
    now = {**ABOUT, **report.gathered([case], slowed(2.0))}
    first, *_ = compare.regressions(now, {"met": [], "ratios": {"fault.count:fault_1 free thp/stock": STORED}})
    assert first.startswith("fault.count:fault_1 free thp/stock: ")
    assert first.endswith(", was 0.1 (0.09 to 0.11); make bench ONLY=fault.count:fault_1 FORCE=1")


STORED = {"ratio": 0.1, "least": 0.09, "most": 0.11}


def test_nearly_every_stored_count_would_be_missed_if_it_rose() -> None:
    """A spread that hides a rise must not come into the baseline unnoticed."""
    stored = baseline.load(baseline.STORED, "")["ratios"]
    counted = {case.name for case in CASES if case.machine != WALL}
    exact = [
        Ratio(**values)
        for name, values in stored.items()
        if compare.case_of(name) in counted or name.split()[-2] in ("written", "stored")
    ]
    higher = [Ratio(*(1.02 * value for value in ratio)) for ratio in exact]
    found = [compare.risen(Guarded("", EXACT, now, ""), ratio) for now, ratio in zip(higher, exact)]
    assert len(found) > 100 and sum(found) >= 0.98 * len(found)


# Goals


def with_goal(**goal: object) -> dict[str, Any]:
    return {"cases": [], "goals": [{"text": "fast", "command": "make bench", "case": "fault", **goal}]}


FAST = {"met": ["fast"], "ratios": {}}


@pytest.mark.parametrize(("verdict", "lost"), [(MET, False), (MISSED, True), (UNKNOWN, False)])
def test_a_goal_that_was_met_stays_met(verdict: str, lost: bool) -> None:
    assert bool(compare.regressions(with_goal(over="", verdict=verdict), FAST)) is lost


@pytest.mark.parametrize(("least", "most", "lost"), [(1.01, 1.05, False), (1.03, 1.05, True)])
def test_a_goal_is_no_longer_met_when_all_rounds_miss_it(least: float, most: float, lost: bool) -> None:
    found = {"median": 1.04, "least": least, "most": most}
    now = with_goal(over=STOCK, verdict=MISSED, found=found, most=1.02, least=None)
    assert bool(compare.regressions(now, FAST)) is lost
    now = with_goal(over=STOCK, verdict=MISSED, found=found, most=None, least=least + 0.05 * lost)
    assert bool(compare.regressions(now, FAST)) is lost


@pytest.mark.parametrize(("verdict", "missing"), [(MET, []), (MISSED, []), (UNKNOWN, ["fast"])])
def test_a_goal_that_was_met_is_measured(verdict: str, missing: list[str]) -> None:
    now = with_goal(over="", verdict=verdict)
    assert compare.unmeasured_goals(now, FAST, [by_name("fault")]) == missing
    assert compare.unmeasured_goals(now, FAST, [by_name("swapin")]) == []
    assert compare.unmeasured_goals({"cases": [], "goals": []}, FAST, CASES) == ["fast"]
