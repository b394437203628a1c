"""Compare the last report with the stored ratios and instruction counts: `make bench-check`.

A ratio has become worse if each of its rounds is above every stored round, and its median is above the stored one by
more than the tolerance. One slow round, or a machine that is slow for all kernels, does not make it worse.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cases import CASES, COUNT, WALL, Case
from bench.goals import MET, MISSED
from bench.kernels import HERE, PACKAGED
from bench.report import COUNTS, REPORT, ratio_name
from scripts import files
from scripts.console import UserError, main, say

STORED = HERE / "baseline.json"
# By how much of it a median may rise. Instruction counts are deterministic but for interrupts.
TOLERANCE = {COUNT: 0.01, WALL: 0.1}
# A rise below this is none, however small the ratio is.
LEAST_RISE = 0.01
# By how much an instruction count may rise that has no other kernel's beside it: the base kernel changes, too.
COUNT_TOLERANCE = 0.02

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
    """Tell whether every round misses a goal that is a ratio: a median close to its goal misses it now and then."""
    if goal["verdict"] != MISSED:
        return False
    if not goal["over"]:
        return True
    found, most = goal["found"], goal["most"]
    return bool(found["most"] < goal["least"] if most is None else found["least"] > most)


def shown(ratio: Ratio) -> str:
    return f"{ratio['median']:.3f} ({ratio['least']:.3f} to {ratio['most']:.3f})"


def regressions(report: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return a line for each ratio that has risen, and for each goal that was met and surely is not any more."""
    now = guarded(report)
    found = []
    for name, ratio in stored["ratios"].items():
        if name in now and risen(now[name], ratio):
            found.append(f"{name}: {shown(now[name].ratio)}, was {shown(ratio)}; {now[name].command}")
    for goal in report["goals"]:
        if goal["text"] in stored["met"] and surely_missed(goal):
            found.append(f"no longer met: {goal['text']}; {goal['command']}")
    return found


# Which stored ratios a report must have


def case_of(name: str) -> str:
    return name.partition(":")[0]


def of_cases(stored: Mapping[str, Any], selected: Iterable[Case]) -> list[str]:
    """Return the names of the stored ratios of these cases, between the kernels that they have."""
    pairs = {(case.name, ratio_name(pair)) for case in selected for pair in case.pairs}
    return [name for name in stored["ratios"] if (case_of(name), name.rpartition(" ")[2]) in pairs]


def unmeasured(report: Mapping[str, Any], names: Iterable[str]) -> list[str]:
    now = guarded(report)
    return [name for name in names if name not in now]


def of_unmeasured_cases(report: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return the ratios of cases without any ratio. A single round may lack one whose denominator happens to be 0."""
    missing = unmeasured(report, names)
    measured = {case_of(name) for name in names if name not in missing}
    return [name for name in missing if case_of(name) not in measured]


# Instruction counts


def counts(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the instruction counts of the package's kernel."""
    return {
        f"{case['name']}:{row['test']} {row['figure']}": row["spread"][PACKAGED]["median"]
        for case in report["cases"]
        for row in case["rows"]
        if row["guarded"] and row["spread"].get(PACKAGED)
    }


def count_regressions(report: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return a line for each instruction count that has risen or was not measured."""
    known = stored.get("counts")
    if not known:
        raise UserError(f"{STORED} has no instruction counts", "python3 -m bench.baseline --count --store")
    now, compiler = counts(report), report["machine"]["compiler"]
    found = [f"{name}: not measured, was {count:.0f}" for name, count in known["values"].items() if name not in now]
    if compiler != known["compiler"]:
        say(f"NOT COMPARED: {len(known['values'])} instruction counts; they depend on the compiler")
        say(f"  stored with {known['compiler']}, measured with {compiler}")
        return found
    for name, count in known["values"].items():
        if name in now and now[name] > count * (1 + COUNT_TOLERANCE):
            found.append(f"{name}: {now[name]:.0f} instructions, was {count:.0f}")
    return found


# The command


def load(path: Path, hint: str) -> dict[str, Any]:
    if not path.exists():
        raise UserError(f"there is no {path}", hint)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def write(changed: Mapping[str, Any]) -> None:
    """Replace these parts of the baseline, and keep the others."""
    kept = json.loads(STORED.read_text()) if STORED.exists() else {}
    files.replace(STORED, json.dumps({**kept, **changed}, indent=1) + "\n")


def store(report: Mapping[str, Any]) -> None:
    ratios = {name: {key: round(value, 4) for key, value in one.ratio.items()} for name, one in guarded(report).items()}
    if not ratios:
        raise UserError(f"{REPORT} has no ratio to store", "run `make bench` to its end")
    write({"met": goals_met(report), "ratios": ratios})
    say(f"baseline: {len(ratios)} ratios and {len(goals_met(report))} goals stored in {STORED}")


def counts_entry(report: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: round(count, 1) for name, count in counts(report).items()}
    return {"compiler": report["machine"]["compiler"], "values": values}


def store_counts(report: Mapping[str, Any]) -> None:
    entry = counts_entry(report)
    if not entry["values"]:
        raise UserError(f"{COUNTS} has no instruction count to store", "run `make bench COUNT=1` to its end")
    write({"counts": entry})
    say(f"baseline: {len(entry['values'])} instruction counts stored in {STORED}")


def refuse(worse: Sequence[str]) -> None:
    for line in worse:
        say(f"  {line}")
    if worse:
        raise UserError(f"{len(worse)} figures or goals are worse than stored, or missing", "they are listed above")


def check_counts(report: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    refuse(count_regressions(report, stored))
    return f"{len(stored['counts']['values'])} instruction counts, none is worse than stored"


def check(report: Mapping[str, Any], stored: Mapping[str, Any], quick: bool) -> str:
    """Return what was compared. What has become worse, or is missing from the report, is an error."""
    names = of_cases(stored, [case for case in CASES if case.quick]) if quick else list(stored["ratios"])
    missing = of_unmeasured_cases(report, names) if quick else unmeasured(report, names)
    refuse(regressions(report, stored))
    if missing:
        raise UserError(f"{len(missing)} stored ratios were not measured, for example {missing[0]}", "run `make bench`")
    compared = guarded(report).keys() & stored["ratios"].keys()
    if not compared:
        raise UserError("no ratio was compared", f"{STORED} has none of the report's")
    return f"{len(compared)} of {len(stored['ratios'])} stored ratios compared, none is worse"


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true", help="store the last report as the new baseline")
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--quick", action="store_true", help="require only the cases that `make bench QUICK=1` measures")
    scope.add_argument("--count", action="store_true", help="use the report of `make bench COUNT=1`")
    given = parser.parse_args()
    report = load(COUNTS, "run `make bench COUNT=1`") if given.count else load(REPORT, "run `make bench`")
    if given.store:
        (store_counts if given.count else store)(report)
        return
    stored = load(STORED, "python3 -m bench.baseline --store, after a good run")
    done = check_counts(report, stored) if given.count else check(report, stored, given.quick)
    say(f"bench-check: {done}")


if __name__ == "__main__":
    main(command)
