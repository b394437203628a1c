"""Compare the last report with the ratios that are stored: `make bench-check`.

A ratio has risen if every round of it is above every round that was stored, and its median by more than such a median
moves by itself. So one slow round is no regression, and neither is a machine that is slow for all kernels.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bench.cases import COUNT, WALL
from bench.goals import MET, MISSED
from bench.kernels import HERE
from bench.report import REPORT
from scripts.console import UserError, main, say

STORED = HERE / "baseline.json"
# By how much of it a median may rise: what is counted is the same each time, but for interrupts.
TOLERANCE = {COUNT: 0.01, WALL: 0.1}
# And at least by this: a ratio that was nothing stays nothing.
LEAST_RISE = 0.01

Ratio = Mapping[str, float]


@dataclass(frozen=True)
class Guarded:
    """A ratio that must not rise; less is better."""

    name: str
    machine: str
    ratio: Ratio
    command: str


def guarded(report: Mapping[str, Any]) -> dict[str, Guarded]:
    found = {}
    for case in report["cases"]:
        for row in [row for row in case["rows"] if row["guarded"]]:
            for pair, ratio in row["ratios"].items():
                name = f"{case['name']}:{row['test']} {row['figure']} {pair}"
                if ratio:
                    found[name] = Guarded(name, case["machine"], ratio, row["command"])
    return found


def goals_met(report: Mapping[str, Any]) -> list[str]:
    return [goal["text"] for goal in report["goals"] if goal["verdict"] == MET]


def risen(now: Guarded, stored: Ratio) -> bool:
    limit = stored["median"] + max(stored["median"] * TOLERANCE[now.machine], LEAST_RISE)
    return now.ratio["least"] > stored["most"] and now.ratio["median"] > limit


def surely_missed(goal: Mapping[str, Any]) -> bool:
    """Say whether a goal is missed, in every round if it is a ratio: what lies close to a goal goes to and fro."""
    if goal["verdict"] != MISSED:
        return False
    if not goal["over"]:
        return True
    found, most = goal["found"], goal["most"]
    return bool(found["most"] < goal["least"] if most is None else found["least"] > most)


def shown(ratio: Ratio) -> str:
    return f"{ratio['median']:.3f} ({ratio['least']:.3f} to {ratio['most']:.3f})"


def regressions(report: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return a line for each ratio that has risen, and each goal that was met and surely is not."""
    now = guarded(report)
    found = []
    for name, ratio in stored["ratios"].items():
        if name in now and risen(now[name], ratio):
            found.append(f"{name}: {shown(now[name].ratio)}, was {shown(ratio)}; {now[name].command}")
    for goal in report["goals"]:
        if goal["text"] in stored["met"] and surely_missed(goal):
            found.append(f"no longer met: {goal['text']}; {goal['command']}")
    return found


def unmeasured(report: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    return [name for name in stored["ratios"] if name not in guarded(report)]


def store(report: Mapping[str, Any]) -> None:
    ratios = {name: {key: round(value, 4) for key, value in one.ratio.items()} for name, one in guarded(report).items()}
    if not ratios:
        raise UserError(f"{REPORT} has no ratio to store", "run `make bench` to its end")
    part = STORED.with_suffix(".part")
    part.write_text(json.dumps({"met": goals_met(report), "ratios": ratios}, indent=1) + "\n")
    part.replace(STORED)
    say(f"baseline: {len(ratios)} ratios and {len(goals_met(report))} goals stored in {STORED}")


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true", help="keep the ratios of the last report as the new baseline")
    parser.add_argument("--quick", action="store_true", help="what was not measured is no error")
    given = parser.parse_args()
    if not REPORT.exists():
        raise UserError("nothing has been measured", "run `make bench`")
    report = json.loads(REPORT.read_text())
    if given.store:
        store(report)
        return
    if not STORED.exists():
        raise UserError(f"there is no {STORED}", "python3 -m bench.baseline --store, after a run that is good")
    stored = json.loads(STORED.read_text())
    gone, worse = unmeasured(report, stored), regressions(report, stored)
    for line in worse:
        say(f"  {line}")
    if worse:
        raise UserError(f"{len(worse)} of {len(stored['ratios'])} ratios and goals are worse than stored", "see above")
    if gone and not given.quick:
        raise UserError(f"{len(gone)} stored ratios were not measured, {gone[0]} for one", "run `make bench`")
    say(f"bench-check: {len(stored['ratios']) - len(gone)} ratios are no worse than stored, {len(gone)} not measured")


if __name__ == "__main__":
    main(command)
