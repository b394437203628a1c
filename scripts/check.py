"""Run the suites of `make check` or `make check-full`, each by its own make target, and say what each took.

What has passed is kept until the sources change: after an interrupt or a failure the same command goes on with the
rest. Prose counts for `make check`, which tests it. A run in which everything passed is followed by one from the start.
Results: build/check/NAME.json.

Suites that leave a processor idle have company, which makes way for them. What that prints is in build/check/SUITE.log,
and is shown at its end.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from scripts import files
from scripts.console import BUILD, ROOT, UserError, main, say

FOLDER = BUILD / "check"
AUTOGROUP = Path("/proc/self/autogroup")
# The nice value of company, all of which gets a quarter of a processor where the suite beside it would like both.
MODEST = 5


@dataclass(frozen=True)
class Suite:
    """`goals` are the arguments of make: a target and its options."""

    name: str
    goals: tuple[str, ...]

    @property
    def log(self) -> Path:
        return FOLDER / f"{self.name.split()[0]}.log"


# These run at the same time; the first one has the terminal.
Stage = tuple[Suite, ...]


def stages(*stages: str) -> tuple[Stage, ...]:
    """Return stages of suites, which commas separate."""
    return tuple(tuple(Suite(name, tuple(name.split())) for name in stage.split(", ")) for stage in stages)


# What the others need comes first. The gate, whose host waits and mostly keeps one processor busy, has company, and so
# has who makes an image: packages are tested and the tree is unpacked meanwhile. A rollout has four hosts at work:
# beside it, nothing ends sooner.
CHECK = stages(
    "rpms",
    "image, package, series-check CHANGED=1",
    "mutation CHANGED=1",
    "bench-check COUNT=1",
    "lockdep CHANGED=1",
    "gate, static",
    "hosts",
    "fleet QUICK=1",
)
FULL = stages(
    "lockdep",
    "vm-selftests",
    "matrix",
    "hosts-full",
    "collection-matrix",
    "molecule",
    "fleet-scale",
    "releases",
    "package FLAVOUR=server",
    "gate FLAVOUR=server",
    "flavours",
    "package DEBUG=1",
    "gate DEBUG=1",
    "series-check",
    "mutation",
    "rebuild-check KERNEL=1",
    "srpm-check",
    "bench-check",
    "fleet-full",
)
RUNS = {"check": CHECK, "check-full": FULL}
# What no suite of a run looks at, as git names paths: prose that is in no package, and the record for CHANGED=1.
PROSE = ("*.md", "docs/**", "patches/*/tested.json")
UNTESTED: dict[str, tuple[str, ...]] = {"check": (), "check-full": PROSE}


def every(planned: Sequence[Stage]) -> list[Suite]:
    return [suite for stage in planned for suite in stage]


@dataclass
class Run:
    """What is known of each suite: the seconds it took, less than 0 where it failed."""

    name: str
    key: str
    seconds: dict[str, float]

    @classmethod
    def read(cls, name: str, key: str) -> Run:
        path = FOLDER / f"{name}.json"
        found = json.loads(path.read_text()) if path.exists() else {}
        complete = all(found.get("seconds", {}).get(suite.name, -1.0) >= 0 for suite in every(RUNS[name]))
        return cls(name, key, {} if complete or found.get("key") != key else found["seconds"])

    def write(self) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"key": self.key, "seconds": self.seconds}, indent=2)
        files.replace(FOLDER / f"{self.name}.json", f"{text}\n")

    def passed(self, suite: Suite) -> bool:
        return self.seconds.get(suite.name, -1.0) >= 0

    def table(self, planned: Sequence[Suite]) -> str:
        width = max(len(suite.name) for suite in planned)
        lines = [f"{'suite':<{width}}  {'result':<6}  {'time':>9}"]
        for suite in planned:
            took = abs(self.seconds[suite.name])
            result = "passed" if self.passed(suite) else "FAILED"
            lines.append(f"{suite.name:<{width}}  {result:<6}  {took // 60:3.0f} min {took % 60:2.0f} s")
        return "\n".join(lines)


def sources(name: str) -> str:
    """Return a hash of the sources of a run as they are, committed or not."""
    excluded = (f":(exclude,glob){pattern}" for pattern in UNTESTED[name])
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", ".", *excluded]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    total = hashlib.sha256()
    for path in (ROOT / found for found in sorted(set(listed))):
        if path.is_symlink():
            kind, content = "link", os.fsencode(path.readlink())
        elif path.is_file():
            kind, content = "program" if path.stat().st_mode & 0o111 else "file", path.read_bytes()
        else:
            continue
        total.update(f"{kind} {path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return total.hexdigest()


def run(suite: Suite, output: IO[str] | None = None) -> float:
    """Return how many seconds it took, less than 0 if it failed."""
    began = time.monotonic()
    words = ["nice", "-n", str(MODEST)] if output else []
    command = [*words, "make", "--no-print-directory", *suite.goals]
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=output, stderr=subprocess.STDOUT if output else None)
    took = time.monotonic() - began
    return took if done.returncode == 0 else -took


def run_beside(suite: Suite) -> float:
    """Run a suite while another one has the terminal."""
    with suite.log.open("w") as log:
        return run(suite, log)


@contextmanager
def modesty() -> Iterator[None]:
    """Have our session make way for those of virtual hosts.

    Between sessions, Linux divides the processors by the nice values of their autogroups, if it has these (sched(7)).
    The file is empty for who has started without a session of his own, as the first process of a container may.
    """
    try:
        autogroup = AUTOGROUP.read_text().split()
        if autogroup:
            AUTOGROUP.write_text(str(MODEST))
    except OSError:
        autogroup = []
    try:
        yield
    finally:
        # Only root may take a lower value again.
        with suppress(OSError):
            if autogroup:
                AUTOGROUP.write_text(autogroup[-1])


def run_stage(first: Suite, *beside: Suite) -> dict[str, float]:
    """Run suites at the same time, and return how many seconds each took."""
    say(", ".join([f"=== {first.name}", *(f"beside it {suite.name}, see {suite.log}" for suite in beside)]))
    FOLDER.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool, modesty() if beside else nullcontext():
        others = [pool.submit(run_beside, suite) for suite in beside]
        seconds = {first.name: run(first)}
    for suite, other in zip(beside, others):
        say(f"=== {suite.name}")
        print(suite.log.read_text(errors="replace"), end="")
        seconds[suite.name] = other.result()
    return seconds


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("name", choices=RUNS)
    name = parser.parse_args().name
    state = Run.read(name, sources(name))
    began = time.monotonic()
    for stage in RUNS[name]:
        for suite in filter(state.passed, stage):
            say(f"=== {suite.name}: passed before, sources unchanged")
        left = [suite for suite in stage if not state.passed(suite)]
        if left:
            state.seconds.update(run_stage(*left))
            state.write()
    planned = every(RUNS[name])
    failed = [suite.name for suite in planned if not state.passed(suite)]
    say(f"{name}: took {(time.monotonic() - began) / 60:.0f} min")
    print(state.table(planned))
    print(f"{name}: {len(planned) - len(failed)} passed, {len(failed)} failed")
    if failed:
        raise UserError(f"failed: {', '.join(failed)}", f"fix what is printed above, then `make {name}` goes on")


if __name__ == "__main__":
    main(command)
