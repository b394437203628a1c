"""Run the suites of `make check` or `make check-full`, each by its own make target, and say what each took.

What has passed is kept until the sources change: after an interrupt or a failure the same command goes on with the
rest. A run in which everything passed is followed by one from the start. Results: build/check/NAME.json.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass

from scripts import files
from scripts.console import BUILD, ROOT, UserError, main, say

FOLDER = BUILD / "check"


@dataclass(frozen=True)
class Suite:
    """`goals` are the arguments of make: a target and its options."""

    name: str
    goals: tuple[str, ...]


def suites(*goals: str) -> tuple[Suite, ...]:
    return tuple(Suite(goal, tuple(goal.split())) for goal in goals)


# Fastest first, but for what the others need.
CHECK = suites(
    "rpms",
    "image",
    "static",
    "package",
    "series-check CHANGED=1",
    "mutation CHANGED=1",
    "bench-check COUNT=1",
    "lockdep CHANGED=1",
    "gate",
    "hosts",
    "fleet QUICK=1",
)
FULL = suites(
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
        complete = all(found.get("seconds", {}).get(suite.name, -1.0) >= 0 for suite in RUNS[name])
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


def git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def sources() -> str:
    """Return a hash of the sources as they are, committed or not."""
    total = hashlib.sha256(git("rev-parse", "HEAD^{tree}") + git("diff", "HEAD"))
    for name in sorted(git("ls-files", "-z", "--others", "--exclude-standard").split(b"\0")):
        if name:
            total.update(name + (ROOT / name.decode()).read_bytes())
    return total.hexdigest()


def run(suite: Suite) -> float:
    """Return how many seconds it took, less than 0 if it failed."""
    say(f"=== {suite.name}")
    began = time.monotonic()
    done = subprocess.run(["make", "--no-print-directory", *suite.goals], cwd=ROOT, check=False)
    took = time.monotonic() - began
    return took if done.returncode == 0 else -took


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("name", choices=RUNS)
    name = parser.parse_args().name
    planned = RUNS[name]
    state = Run.read(name, sources())
    for suite in planned:
        if state.passed(suite):
            say(f"=== {suite.name}: passed before, sources unchanged")
            continue
        state.seconds[suite.name] = run(suite)
        state.write()
    failed = [suite.name for suite in planned if not state.passed(suite)]
    say(f"{name}: {sum(map(abs, state.seconds.values())) / 60:.0f} min in all")
    print(state.table(planned))
    print(f"{name}: {len(planned) - len(failed)} passed, {len(failed)} failed")
    if failed:
        raise UserError(f"failed: {', '.join(failed)}", f"fix what is printed above, then `make {name}` goes on")


if __name__ == "__main__":
    main(command)
