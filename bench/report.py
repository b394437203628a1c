"""Write the report: report.json for programs, report.html with the plots, table.md for the documentation."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bench import cases, goals, kernels, page, plain_text, ratios, throttle
from bench.cases import COUNT, Case
from bench.guest import machine_of, qemu_version
from bench.kernels import OUT
from bench.ratios import Row, Spread
from bench.results import Boots
from scripts import files

REPORT = OUT / "report.json"
COUNTS = OUT / "count.json"
PAGE = OUT / "report.html"
TABLE = OUT / "table.md"
# The highest number of rounds whose results are looked up.
MOST_ROUNDS = 50
STATEMENT = (
    "Software emulation shows exactly and deterministically how many instructions a kernel executes for a piece of "
    "work. It also shows the kernel's counters, how much memory is used, given back and written to swap, and which "
    "programs the OOM killer kills.",
    "Software emulation does not show effects of the TLB: neither the benefit of a huge page to the program that uses "
    "it nor the cost of flushing. It has no caches and no memory bandwidth: reading a page costs the same wherever the "
    "page is. It does not show the cost of locks and interrupts that processors share, nor the speed of a real disk: "
    "the emulated one is this machine's page cache, slowed down until the stock kernel swaps to zram ten times as "
    "fast. Time on the emulated machine is the time of translated instructions. A ratio of two such times applies to a "
    "host as far as both kernels execute the same kinds of instructions.",
)
# Units where a nanosecond is an instruction.
UNITS = {"ns": "instructions", "bytes/s": "bytes per 10⁹ instructions"}


def unit_of(case: Case, unit: str) -> str:
    return UNITS.get(unit, unit) if case.machine == COUNT else unit


def shown(case: Case, row: Row) -> bool:
    """Leave out elapsed time where instructions are counted; processor time is the instructions."""
    return not (case.machine == COUNT and row.unit == "s")


def plain(found: Spread | None) -> dict[str, float] | None:
    return asdict(found) if found else None


def ratio_name(pair: tuple[str, str]) -> str:
    return "/".join(pair)


def row_entry(case: Case, row: Row) -> dict[str, Any]:
    return {
        "test": row.test,
        "figure": row.figure,
        "unit": unit_of(case, row.unit),
        "first": row.figure in case.figures or not case.figures,
        "guarded": row.figure in case.guard,
        "values": {kernel: list(values) for kernel, values in row.values.items()},
        "spread": {kernel: plain(row.of(kernel)) for kernel in row.values},
        "ratios": {ratio_name(pair): plain(row.ratio(*pair)) for pair in case.pairs},
        "command": cases.command(case, row.test),
    }


def missing(case: Case, rounds: Sequence[Boots]) -> list[dict[str, str]]:
    """Return the tests without figures, skipped or failed, each once with its reason."""
    found = {}
    for boots in rounds:
        for kernel, boot in boots.items():
            for test, (verdict, reason) in boot.verdicts.items():
                if verdict != "pass":
                    found[test, kernel] = {"test": test, "kernel": kernel, "verdict": verdict, "reason": reason}
    return list(found.values())


def machine_line(case: Case) -> str:
    return shlex.join(machine_of(case, Path(), Path("root.ext4"), throttle.options()).command())


def case_entry(case: Case, rounds: Sequence[Boots], rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "name": case.name,
        "title": case.title,
        "machine": case.machine,
        "command_line": machine_line(case),
        "thp_swap": case.thp_swap,
        "kernels": list(case.kernels),
        "rounds": len(rounds),
        "figures": list(case.figures),
        "command": cases.command(case, ""),
        "missing": missing(case, rounds),
        "rows": [row_entry(case, row) for row in rows if shown(case, row)],
    }


def goal_entries(rows: Sequence[Row]) -> list[dict[str, Any]]:
    found = []
    for goal in goals.GOALS:
        outcome = goals.evaluate(goal, rows)
        command = f"make bench ONLY={goal.case}:{goal.test} FORCE=1"
        entry = {**asdict(goal), "wish": goal.wish, "found": plain(outcome.found), "verdict": outcome.verdict}
        found.append({**entry, "command": command})
    return found


def kernel_entries(selected: Iterable[Case]) -> list[dict[str, Any]]:
    """Return the kernels that have been built, each with the options its Kconfig does not have."""
    pairs = dict.fromkeys(
        (name, case.thp_swap) for case in selected for name in case.kernels if name in kernels.SOURCES
    )
    found = [kernels.find(*pair) for pair in pairs]
    return [
        {"name": one.name, "label": one.label, "version": one.version, "key": one.key, "lacks": kernels.lacks(one)}
        for one in found
        if one.config.exists()
    ]


def gathered(selected: Sequence[Case], rounds_of: Callable[[Case], list[Boots]]) -> dict[str, Any]:
    """Return the report without the kernels and the machine."""
    everything: list[Row] = []
    entries = []
    for case in selected:
        rounds = rounds_of(case)
        rows = ratios.rows(case.name, rounds, case.kernels)
        everything += rows
        entries.append(case_entry(case, rounds, rows))
    return {"statement": list(STATEMENT), "goals": goal_entries(everything), "cases": entries}


def origin() -> dict[str, Any]:
    made = datetime.now(timezone.utc).isoformat(timespec="seconds")
    machine = {"processors": os.cpu_count(), "qemu": qemu_version(), "compiler": kernels.compiler()}
    return {"made": made, "machine": machine}


def write_counts(selected: Sequence[Case], rounds_of: Callable[[Case], list[Boots]]) -> None:
    """Write the results of `--count` to a file of their own; the report of all cases stays as it is."""
    files.replace(COUNTS, json.dumps({**origin(), **gathered(selected, rounds_of)}, indent=1) + "\n")


def write(selected: Sequence[Case], rounds_of: Callable[[Case], list[Boots]]) -> None:
    found = {**origin(), "kernels": kernel_entries(selected), **gathered(selected, rounds_of)}
    pages = {REPORT: json.dumps(found, indent=1) + "\n", PAGE: page.render(found), TABLE: plain_text.markdown(found)}
    for path, text in pages.items():
        files.replace(path, text)
