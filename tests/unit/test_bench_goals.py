"""docs/bench.md says which goals there are, what they were before, and why they changed."""

from __future__ import annotations

import dataclasses
import datetime
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pytest

from bench.goals import GOALS, Goal
from scripts.console import ROOT

PAGE = (ROOT / "docs" / "bench.md").read_text()
ROW = re.compile(r"^\| (\S+) \| ([^|]+) \| `([^|`]+)` \| ([^|]+) \| ([^|]*) \|$", re.MULTILINE)
# A goal that is no longer one keeps its rows; the last one says so in place of its wish.
DROPPED = "dropped"


class Change(NamedTuple):
    since: str
    goal: str
    figure: str
    wish: str
    why: str


HISTORY = [Change(*cells) for cells in ROW.findall(PAGE.partition("### How the goals came about")[2])]


def in_force(history: Iterable[Change]) -> set[tuple[str, str, str]]:
    last = {change.goal: change for change in history}
    return {(one.goal, one.figure, one.wish) for one in last.values() if one.wish != DROPPED}


def wanted(goals: Iterable[Goal]) -> set[tuple[str, str, str]]:
    return {(goal.text, f"{goal.case}:{goal.test} {goal.figure}", goal.wish) for goal in goals}


def test_the_last_row_of_each_goal_is_the_goal() -> None:
    assert in_force(HISTORY) == wanted(GOALS)


def test_every_change_has_a_date_and_a_reason() -> None:
    dates = [datetime.date.fromisoformat(change.since) for change in HISTORY]
    assert dates == sorted(dates)
    assert [change for change in HISTORY if len(change.why.split()) < 3] == []


def test_every_row_changes_something() -> None:
    last: dict[str, Change] = {}
    for change in HISTORY:
        before = last.get(change.goal)
        assert before is None or (before.figure, before.wish) != (change.figure, change.wish)
        last[change.goal] = change


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.text)
def test_the_table_of_results_has_each_goal_as_it_is(goal: Goal) -> None:
    assert f"\n| {goal.text} | {goal.wish} | " in PAGE


def loosened(goal: Goal) -> Goal:
    if goal.most is not None:
        return dataclasses.replace(goal, most=goal.most * 1.1 or 1)
    assert goal.least is not None
    return dataclasses.replace(goal, least=goal.least * 0.9)


def changes(goal: Goal) -> Sequence[Sequence[Goal]]:
    """Return in which ways a goal can be replaced: loosened, about another kernel, about another test, gone."""
    return [loosened(goal)], [dataclasses.replace(goal, over="x")], [dataclasses.replace(goal, test="x")], []


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.text)
def test_a_goal_that_changes_without_a_row_is_found(goal: Goal) -> None:
    others = [one for one in GOALS if one != goal]
    for instead in changes(goal):
        assert in_force(HISTORY) != wanted([*others, *instead])


def test_a_goal_can_be_dropped_with_a_row() -> None:
    first, *others = GOALS
    gone = Change("2027-01-01", first.text, "x", DROPPED, "")
    assert in_force([*HISTORY, gone]) == wanted(others)
