"""Measure the memory of programs with sparse heaps, all at the same time, each in a cgroup of its own.

usage: measure.py PROGRAM.MODE...

Modes are about huge pages: `madvise` and `always`, both with memory for everybody; `tight`, which is always with the
limit that workloads.py has for each program, a little more than it needs without huge pages; and `shrinker`, the same
with underused ones given back. Output is KTAP, with a line for each figure:

    # PROGRAM.MODE: NAME VALUE UNIT

rss and huge (resident memory, and huge pages in it) and work (the time of what it was made to do) are about a program
that lives, peak and limit are those of its cgroup, pressure is the time that it waited for memory, killed the number
of kills for lack of it. rss_left and huge_left is what remains when all is reclaimed that can be. Of mix it is known
which huge pages are used: kept is the share of these that are still there, wasted what is left of the memory that
nobody uses.
"""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from bench.programs import memory
from bench.programs.cgroup import Cgroup
from bench.programs.workloads import WARM, WORKLOADS, Workload

MODES = ("madvise", "always", "tight", "shrinker")
LIMITED = MODES[2:]
LIMIT_SECONDS = 180.0
ENTER = Path(__file__).with_name("enter.sh")
Figures = list[tuple[str, float, str]]


class Run(threading.Thread):
    """One program in one mode, from its start to its end."""

    def __init__(self, workload: Workload, mode: str) -> None:
        super().__init__(daemon=True)
        self.workload = workload
        self.mode = mode
        self.limit = workload.limit if mode in LIMITED else None
        self.figures: Figures = []
        self.why = ""

    @property
    def test(self) -> str:
        return f"{self.workload.name}.{self.mode}"

    def run(self) -> None:
        try:
            with Cgroup(self.workload.name, self.limit) as cgroup:
                self.measure(cgroup)
        except Exception as error:
            self.why = f"{type(error).__name__}: {error}"

    def measure(self, cgroup: Cgroup) -> None:
        command = [str(ENTER), str(cgroup.path), *self.workload.command]
        log = Path(f"/tmp/{self.test}.log")
        with log.open("w") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            said = self.workload.drive(process)
            self.living(cgroup, process.pid, said)
        except (OSError, HTTPException) as error:
            # A program that was killed is a measurement.
            if not cgroup.killed():
                raise RuntimeError(f"{error}; it said: {log.read_text()[-200:]!r}") from error
        self.figures += [
            ("peak", cgroup.peak(), "bytes"),
            ("pressure", cgroup.pressure(), "s"),
            ("killed", cgroup.killed(), "count"),
        ]
        if self.limit is not None:
            self.figures.append(("limit", self.limit, "bytes"))

    def living(self, cgroup: Cgroup, pid: int, said: dict[str, Any]) -> None:
        rss, huge = memory.rolled_up(cgroup.pids())
        self.figures += [("work", said["work"], "s"), ("rss", rss, "bytes"), ("huge", huge, "bytes")]
        cgroup.reclaim(rss)
        rss, huge = memory.rolled_up(cgroup.pids())
        self.figures += [("rss_left", rss, "bytes"), ("huge_left", huge, "bytes")]
        if "dense" in said:
            _, kept = memory.mapped(pid, said["dense"])
            left, _ = memory.mapped(pid, said["sparse"])
            wasted = (left - said["live"]) / (said["size"] - said["live"])
            self.figures += [("kept", kept / said["size"], "share"), ("wasted", wasted, "share")]


def warm() -> None:
    for pattern in WARM:
        for path in Path("/").glob(pattern[1:]):
            if path.is_file():
                path.read_bytes()


def run_all(mode: str, chosen: Sequence[Workload]) -> list[Run]:
    runs = [Run(workload, mode) for workload in chosen]
    for run in runs:
        run.start()
    for run in runs:
        run.join(LIMIT_SECONDS)
        if run.is_alive():
            run.why = f"not done within {LIMIT_SECONDS:.0f} seconds"
    return runs


def report(number: int, run: Run) -> None:
    # First of all, because the first comment is taken for the reason of a failure.
    if run.why:
        print(f"# {run.test}: {run.why}")
    for name, value, unit in run.figures:
        print(f"# {run.test}: {name} {value:.{6 if unit in ('s', 'share') else 0}f} {unit}")
    print(f"{'not ok' if run.why else 'ok'} {number} {run.test}", flush=True)


def main(wanted: Sequence[str]) -> None:
    print(f"KTAP version 1\n1..{len(wanted)}", flush=True)
    warm()
    number = 0
    for mode in MODES:
        chosen = [workload for workload in WORKLOADS if f"{workload.name}.{mode}" in wanted]
        why = memory.set_mode(mode)
        for run in run_all(mode, chosen) if not why else []:
            number += 1
            report(number, run)
        for workload in chosen if why else []:
            number += 1
            print(f"ok {number} {workload.name}.{mode} # SKIP {why}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
