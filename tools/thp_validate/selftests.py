"""Run the kselftest target `thp` of kernel-thp-selftests, and evaluate it as the gate does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar

from .errors import UserError
from .ktap import SKIP, Report, parse
from .outcomes import Outcome, evaluate, parse_required, reasons
from .system import System

FOLDER = Path("/usr/libexec/kselftests")
INSTALL = "install kernel-thp-selftests"
# For one program; the longest takes less than a minute on two processors of a laptop.
PROGRAM_TIMEOUT = 900.0
# A program that gets SIGTERM needs this long to restore the kernel's settings.
GRACE = 30.0


@dataclass
class Selftests:
    """A run of the selftests (--selftests)."""

    COMPUTED: ClassVar = ("accepted",)
    seconds: float
    tests: list[Outcome] = field(default_factory=list)
    reasons: Annotated[list[str], "why the run is rejected; empty when it is accepted"] = field(default_factory=list)

    @property
    def accepted(self) -> int:
        """The number of tests that are accepted."""
        return sum(test.accepted for test in self.tests)

    @property
    def skips_only(self) -> bool:
        """Return whether the only reasons are required tests that could not run here."""
        refused = [test for test in self.tests if not test.accepted]
        return len(self.reasons) == len(refused) and all(test.verdict == SKIP for test in refused)


def run(system: System, folder: Path = FOLDER) -> Selftests:
    """Run every listed program. Raise before the first one starts if none of them can run."""
    if os.geteuid() != 0:
        raise UserError("--selftests changes kernel settings while it runs, so it must run as root", "use sudo")
    if system.container():
        raise UserError("--selftests tests the kernel of the host, and this is a container", "run it on the host")
    programs = (system.read(str(folder / "kselftest-list.txt")) or "").split()
    wanted = system.read(str(folder / "thp" / "required.txt"))
    if not programs or wanted is None:
        raise UserError(f"there are no selftests of kernel-thp in {folder}", INSTALL)
    required = parse_required(wanted, "required.txt")
    began = time.monotonic()
    found: dict[str, Report] = {}
    problems = []
    for number, program in enumerate(programs, 1):
        print(f"selftests: {number} of {len(programs)}: {program}", file=sys.stderr, flush=True)
        found[program], problem = _run_one(folder, program)
        problems += problem
    tests = evaluate(required, found)
    return Selftests(time.monotonic() - began, tests, problems + reasons(tests, found))


def _run_one(folder: Path, program: str) -> tuple[Report, list[str]]:
    """Run one program in its own session: no process of it outlives an interrupt or the time limit."""
    child = subprocess.Popen(
        [str(folder / "run_kselftest.sh"), "-t", program],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    assert child.stdout is not None
    late = threading.Event()

    def give_up() -> None:
        late.set()
        _end(child.pid)

    timer = threading.Timer(PROGRAM_TIMEOUT, give_up)
    timer.start()
    began = time.monotonic()
    lines, stamps = [], []
    try:
        for line in child.stdout:
            lines.append(line)
            stamps.append(time.monotonic() - began)
        child.wait()
    finally:
        timer.cancel()
        if child.poll() is None:
            _end(child.pid)
            child.wait()
    return parse(lines, stamps), [f"{program}: did not end within {PROGRAM_TIMEOUT:.0f} s"] if late.is_set() else []


def _end(session: int) -> None:
    """Terminate every process of a session, then kill the rest. The runner's `timeout` makes its own process group."""
    deadline = time.monotonic() + GRACE
    number = signal.SIGTERM
    while members := _members(session):
        for member in members:
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, number)
        if time.monotonic() > deadline:
            number = signal.SIGKILL
        time.sleep(0.2)


def _members(session: int) -> list[int]:
    """Return the running processes of a session, without those that only wait to be reaped."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, _, of = path.read_text().rpartition(")")[2].split()[:4]
            if int(of) == session and state != "Z":
                found.append(int(path.parent.name))
    return found
