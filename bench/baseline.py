"""Compare the last report with the stored ratios and instruction counts: `make bench-check`. See bench/compare.py."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import compare
from bench.cases import CASES
from bench.kernels import HERE
from bench.report import COUNTS, REPORT
from scripts import files
from scripts.console import UserError, main, say

STORED = HERE / "baseline.json"
# Figures of a stored number: more than a change that matters has.
DIGITS = 5


def load(path: Path, hint: str) -> dict[str, Any]:
    if not path.exists():
        raise UserError(f"there is no {path}", hint)
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def write(changed: Mapping[str, Any]) -> None:
    """Replace these parts of the baseline, and keep the others."""
    kept = json.loads(STORED.read_text()) if STORED.exists() else {}
    files.replace(STORED, json.dumps({**kept, **changed}, indent=1) + "\n")


def rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def store(report: Mapping[str, Any]) -> None:
    found = compare.guarded(report)
    ratios = {name: {key: rounded(value) for key, value in one.ratio._asdict().items()} for name, one in found.items()}
    if not ratios:
        raise UserError(f"{REPORT} has no ratio to store", "run `make bench` to its end")
    met = compare.goals_met(report)
    write({"met": met, "ratios": ratios})
    say(f"baseline: {len(ratios)} ratios and {len(met)} goals stored in {STORED}")


def counts_entry(report: Mapping[str, Any]) -> dict[str, Any]:
    values = {name: round(count, 1) for name, count in compare.counts(report).items()}
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


def count_regressions(report: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Return a line for each instruction count that has risen or was not measured."""
    known = stored.get("counts")
    if not known:
        hint = "build/venv/bin/python -m bench.baseline --count --store"
        raise UserError(f"{STORED} has no instruction counts", hint)
    now, values, compiler = compare.counts(report), known["values"], report["machine"]["compiler"]
    missing = compare.unmeasured_counts(now, values)
    if compiler == known["compiler"]:
        return [*missing, *compare.risen_counts(now, values)]
    say(f"NOT COMPARED: {len(values)} instruction counts; they depend on the compiler")
    say(f"  stored with {known['compiler']}, measured with {compiler}")
    return missing


def check_counts(report: Mapping[str, Any], stored: Mapping[str, Any]) -> str:
    refuse(count_regressions(report, stored))
    return f"{len(stored['counts']['values'])} instruction counts, none is worse than stored"


def check(report: Mapping[str, Any], stored: Mapping[str, Any], quick: bool) -> str:
    """Return what was compared. What has become worse, or is missing from the report, is an error."""
    selected = [case for case in CASES if case.quick or not quick]
    names = compare.of_cases(stored, selected) if quick else list(stored["ratios"])
    missing = compare.of_unmeasured_tests(report, names) if quick else compare.unmeasured(report, names)
    refuse(compare.regressions(report, stored))
    if missing:
        raise UserError(f"{len(missing)} stored ratios were not measured, for example {missing[0]}", "run `make bench`")
    unknown = compare.unmeasured_goals(report, stored, selected)
    if unknown:
        what = f"{len(unknown)} goals that were met were not measured, for example {unknown[0]}"
        raise UserError(what, "run `make bench`")
    now = compare.guarded(report).keys()
    compared = now & stored["ratios"].keys()
    if not compared:
        raise UserError("no ratio was compared", f"{STORED} has none of the report's")
    if now - compared:
        say(f"NOT COMPARED: {len(now - compared)} ratios that the baseline has not, for example {min(now - compared)}")
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
    stored = load(STORED, "build/venv/bin/python -m bench.baseline --store, after a good run")
    done = check_counts(report, stored) if given.count else check(report, stored, given.quick)
    say(f"bench-check: {done}")


if __name__ == "__main__":
    main(command)
