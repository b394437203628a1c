"""What has become worse: ratios and instruction counts of a report, against those that were stored.

A ratio has become worse if all of its spread is above all of the stored one, and the ratio itself by more than the
tolerance of its kind. What is counted is the same in each round: its spread is narrow and its tolerance small. A time
scatters, because other work adds to it. So its ratio is that of the least times, its spread shows what the ratio would
be without any two rounds, and a single test is found only when it takes much longer. The tests of a case together
scatter far less, and are found when they take a little longer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from bench.cases import Case
from bench.goals import MET, MISSED, UNKNOWN
from bench.kernels import PACKAGED
from bench.ratios import Spread, of_least
from bench.report import ratio_name

# Kinds of ratios, and by how much of it one may rise. Instruction counts are deterministic but for interrupts.
EXACT, TIME, TIMES = "exact", "time", "times of a case"
TOLERANCE = {EXACT: 0.01, TIME: 0.5, TIMES: 0.1}
TIME_UNITS = ("s", "ns")
# The ratio of all tests of a case has this name in place of a test's.
ALL = "all"
# Fewer tests scatter as one does, and times of fewer rounds are not compared: every sixth ratio would be a false alarm.
LEAST_TESTS, LEAST_ROUNDS = 5, 3
# By how much an instruction count may rise that has no other kernel's beside it: the base kernel changes, too.
COUNT_TOLERANCE = 0.02

# The times of two kernels in one round.
Pair = tuple[float, float]


class Ratio(NamedTuple):
    ratio: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.ratio:.4g} ({self.least:.4g} to {self.most:.4g})"


@dataclass(frozen=True)
class Guarded:
    """A ratio that must not rise; less is better."""

    name: str
    kind: str
    ratio: Ratio
    command: str


def kind_of(row: Mapping[str, Any]) -> str:
    return TIME if row["unit"] in TIME_UNITS else EXACT


def pairs_of(row: Mapping[str, Any], name: str) -> list[Pair | None]:
    """Return the times of two kernels in each round, None where one of them has none."""
    values, others = (row["values"].get(kernel, []) for kernel in name.split("/"))
    return [(value, other) if value and other else None for value, other in zip(values, others)]


def of(found: Spread) -> Ratio:
    return Ratio(found.median, found.least, found.most)


def single(case: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[Guarded]:
    for pair, spread in row["ratios"].items():
        name, kind = f"{case['name']}:{row['test']} {row['figure']} {pair}", kind_of(row)
        rounds = [[times] for times in pairs_of(row, pair) if times]
        if kind == EXACT and spread:
            yield Guarded(name, kind, of(Spread(**spread)), row["command"])
        elif kind == TIME and len(rounds) >= LEAST_ROUNDS:
            yield Guarded(name, kind, of(of_least(rounds)), row["command"])


def together(case: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Iterator[Guarded]:
    """Yield the ratios of all tests of a case, one for each figure that is a time, and pair of kernels."""
    for figure in dict.fromkeys(row["figure"] for row in rows if kind_of(row) == TIME):
        tests = [row for row in rows if row["figure"] == figure]
        for pair in tests[0]["ratios"]:
            every = zip(*(pairs_of(row, pair) for row in tests))
            rounds = [[times for times in one if times] for one in every if all(one)]
            if len(tests) >= LEAST_TESTS and len(rounds) >= LEAST_ROUNDS:
                yield Guarded(f"{case['name']}:{ALL} {figure} {pair}", TIMES, of(of_least(rounds)), case["command"])


def guarded(report: Mapping[str, Any]) -> dict[str, Guarded]:
    found: dict[str, Guarded] = {}
    for case in report["cases"]:
        rows = [row for row in case["rows"] if row["guarded"]]
        ratios = [ratio for row in rows for ratio in single(case, row)]
        found.update((ratio.name, ratio) for ratio in [*ratios, *together(case, rows)])
    return found


def risen(now: Guarded, stored: Ratio) -> bool:
    limit = stored.ratio * (1 + TOLERANCE[now.kind])
    return now.ratio.least > stored.most and now.ratio.ratio > limit


def surely_missed(goal: Mapping[str, Any]) -> bool:
    """Tell whether every round misses a goal that is a ratio: a median close to its goal misses it now and then."""
    if goal["verdict"] != MISSED:
        return False
    if not goal["over"]:
        return True
    found, most = goal["found"], goal["most"]
    return bool(found["most"] < goal["least"] if most is None else found["least"] > most)


def goals_met(report: Mapping[str, Any]) -> list[str]:
    return [goal["text"] for goal in report["goals"] if goal["verdict"] == MET]


def regressions(report: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return a line for each ratio that has risen, and for each goal that was met and surely is not any more."""
    now = guarded(report)
    found = []
    for name, values in stored["ratios"].items():
        if name in now and risen(now[name], Ratio(**values)):
            found.append(f"{name}: {now[name].ratio}, was {Ratio(**values)}; {now[name].command}")
    for goal in report["goals"]:
        if goal["text"] in stored["met"] and surely_missed(goal):
            found.append(f"no longer met: {goal['text']}; {goal['command']}")
    return found


# What a report must have


def case_of(name: str) -> str:
    return name.partition(":")[0]


def test_of(name: str) -> str:
    return name.partition(" ")[0]


def of_cases(stored: Mapping[str, Any], selected: Iterable[Case]) -> list[str]:
    """Return the names of the stored ratios of these cases, between the kernels that they have."""
    pairs = {(case.name, ratio_name(pair)) for case in selected for pair in case.pairs}
    return [name for name in stored["ratios"] if (case_of(name), name.rpartition(" ")[2]) in pairs]


def unmeasured(report: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    now = guarded(report)
    return [name for name in names if name not in now]


def of_unmeasured_tests(report: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the ratios of tests without any ratio. A single round may lack one whose denominator happens to be 0."""
    rows = [(case["name"], row) for case in report["cases"] for row in case["rows"] if row["guarded"]]
    measured = {f"{case}:{row['test']}" for case, row in rows if any(row["ratios"].values())}
    return [name for name in names if test_of(name) not in measured and not test_of(name).endswith(f":{ALL}")]


def unmeasured_goals(report: Mapping[str, Any], stored: Mapping[str, Any], selected: Iterable[Case]) -> list[str]:
    """Return the goals of these cases that were met when the baseline was stored, and of which nothing is known now."""
    names = {case.name for case in selected}
    known = [goal["text"] for goal in report["goals"] if goal["verdict"] != UNKNOWN or goal["case"] not in names]
    return [text for text in stored["met"] if text not in known]


# Instruction counts


def counts(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the instruction counts of the package's kernel."""
    return {
        f"{case['name']}:{row['test']} {row['figure']}": row["spread"][PACKAGED]["median"]
        for case in report["cases"]
        for row in case["rows"]
        if row["guarded"] and row["spread"].get(PACKAGED)
    }


def risen_counts(now: Mapping[str, float], stored: Mapping[str, float]) -> list[str]:
    return [
        f"{name}: {now[name]:.0f} instructions, was {count:.0f}"
        for name, count in stored.items()
        if name in now and now[name] > count * (1 + COUNT_TOLERANCE)
    ]


def unmeasured_counts(now: Mapping[str, float], stored: Mapping[str, float]) -> list[str]:
    return [f"{name}: not measured, was {count:.0f}" for name, count in stored.items() if name not in now]
