"""Measure the memory of programs with sparse heaps. They run at the same time, each in a cgroup of its own.

usage: measure.py PROGRAM.MODE...

A mode configures huge pages: `madvise` and `always` run without a memory limit. `tight` is `always` with the limit of
workloads.py, a little more than the program needs without huge pages. `shrinker` is `tight` with the shrinker on.
Output is KTAP, with a line for each figure:

    # PROGRAM.MODE: NAME VALUE UNIT

rss, huge    resident memory, and huge pages in it; not of a program that was killed
work         time the program took for its work; not of a program that was killed
rss_left, huge_left  the same after the kernel reclaimed as much as it could
peak, limit  of the cgroup
pressure     time the program waited for memory
killed       OOM kills
kept, wasted mix only, which knows its used huge pages: share of these that are still huge, and share of its unused
             memory that is still resident
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
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
        self.reason = ""

    @property
    def test(self) -> str:
        return f"{self.workload.name}.{self.mode}"

    def run(self) -> None:
        try:
            with Cgroup(self.workload.name, self.limit) as cgroup:
                self.measure(cgroup)
        except Exception as error:
            self.reason = f"{type(error).__name__}: {error}"

    def measure(self, cgroup: Cgroup) -> None:
        command = [str(ENTER), str(cgroup.path), *self.workload.command]
        log = Path(f"/tmp/{self.test}.log")
        with log.open("w") as errors:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            self.living(cgroup, process.pid, read_output(process))
        except OSError as error:
            # An OOM kill is a measurement, not a failure.
            if not cgroup.killed():
                raise RuntimeError(f"{error}; its output: {log.read_text()[-200:]!r}") from error
        self.figures += [
            ("peak", cgroup.peak(), "bytes"),
            ("pressure", cgroup.pressure(), "s"),
            ("killed", cgroup.killed(), "count"),
        ]
        if self.limit is not None:
            self.figures.append(("limit", self.limit, "bytes"))

    def living(self, cgroup: Cgroup, pid: int, output: dict[str, Any]) -> None:
        rss, huge = memory.rolled_up(cgroup.pids())
        self.figures += [("work", output["work"], "s"), ("rss", rss, "bytes"), ("huge", huge, "bytes")]
        cgroup.reclaim(rss)
        rss, huge = memory.rolled_up(cgroup.pids())
        self.figures += [("rss_left", rss, "bytes"), ("huge_left", huge, "bytes")]
        if "dense" in output:
            _, kept = memory.mapped(pid, output["dense"])
            left, _ = memory.mapped(pid, output["sparse"])
            wasted = (left - output["live"]) / (output["size"] - output["live"])
            self.figures += [("kept", kept / output["size"], "share"), ("wasted", wasted, "share")]


def read_output(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Wait until a program has done its work, and return the line of JSON that it prints then."""
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise ConnectionError("the program ended before its work was done")
    output: dict[str, Any] = json.loads(line)
    return output


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
            run.reason = f"not finished within {LIMIT_SECONDS:.0f} seconds"
    return runs


def report(number: int, run: Run) -> None:
    # First, because a KTAP reader takes the first comment for the reason of a failure.
    if run.reason:
        print(f"# {run.test}: {run.reason}")
    for name, value, unit in run.figures:
        print(f"# {run.test}: {name} {value:.{6 if unit in ('s', 'share') else 0}f} {unit}")
    print(f"{'not ok' if run.reason else 'ok'} {number} {run.test}", flush=True)


def main(wanted: Sequence[str]) -> None:
    print(f"KTAP version 1\n1..{len(wanted)}", flush=True)
    warm()
    number = 0
    for mode in MODES:
        chosen = [workload for workload in WORKLOADS if f"{workload.name}.{mode}" in wanted]
        skipped = memory.set_mode(mode)
        for run in run_all(mode, chosen) if not skipped else []:
            number += 1
            report(number, run)
        for workload in chosen if skipped else []:
            number += 1
            print(f"ok {number} {workload.name}.{mode} # SKIP {skipped}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
