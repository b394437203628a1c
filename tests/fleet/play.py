"""Run the playbooks as an operator does: the built collection, installed by ansible-galaxy, called by its name.

A run is a process of its own, so that a test can do something to a host, or to the run, while it is under way.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema

from lab.vm import sockets
from scripts import collection
from scripts.console import BUILD, HEARTBEAT, UserError, run_logged, say

PLACE = BUILD / "fleet" / "collections"
HOME = BUILD / "fleet" / "ansible"
INSTALLED = PLACE / "ansible_collections" / "kernel_thp" / "fleet"
# What docs/fleet.md advises is what is tried.
CONFIG = collection.SOURCE / "examples" / "ansible.cfg"
TOOLS = Path(sys.executable).parent
REPORTS = "kernel-thp-reports"
POLL = 0.2
RUN_TIMEOUT = 1800.0
TASK = re.compile(r"^TASK \[(.*)\]", re.MULTILINE)
RECAP = re.compile(r"^(\S+)\s*: (ok=\d+ .*)$", re.MULTILINE)
# Emulated hosts are slow, and time limits that end a wait are the longest part of a test that lets them pass.
PATIENCE = {
    "preflight_connect_timeout": 30,
    "preflight_lock_timeout": 120,
    "kernel_reboot_timeout": 300,
    "kernel_panic_seconds": 5,
    "profile_timeout": 120,
    "gate_selftests": False,
    "gate_selftests_timeout": 1200,
    "gate_soak_seconds": 5,
    "gate_soak_interval": 5,
    "gate_health_timeout": 30,
    "gate_silence_timeout": 300,
    "rollback_connect_timeout": 30,
    "rollback_lock_timeout": 600,
    "rollback_return_timeout": 300,
    "rollback_reboot_timeout": 300,
    "rollback_profile_timeout": 120,
}


def install() -> None:
    """Build the collection and install what was built, in a place where nothing else is."""
    archive = collection.build()
    words = ["collection", "install", "--offline", "--force", "-p", str(PLACE), str(archive)]
    log = BUILD / "logs" / "galaxy-install.log"
    run_logged([str(TOOLS / "ansible-galaxy"), *words], log, "ansible-galaxy", "read the log", env=environment(BUILD))


def environment(folder: Path) -> dict[str, str]:
    """Return that of an operator who stands in a folder and uses Ansible for this only."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {
        **kept,
        "PATH": f"{TOOLS}:{os.environ['PATH']}",
        "PWD": str(folder),
        "ANSIBLE_CONFIG": str(CONFIG),
        "ANSIBLE_HOME": str(HOME),
        "ANSIBLE_COLLECTIONS_PATH": str(PLACE),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets()),
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_NOCOLOR": "1",
    }


def schema(name: str) -> dict[str, Any]:
    return dict(json.loads((INSTALLED / "schemas" / f"{name}.schema.json").read_text()))


def validate(name: str, found: Mapping[str, Any]) -> None:
    """Hold what a run wrote to its documented form."""
    jsonschema.validate(found, schema(name))


class Run:
    """One ansible-playbook."""

    def __init__(self, title: str, playbook: str, inventory: Path, words: Sequence[str], folder: Path) -> None:
        """Start it in a folder; its log is beside the inventory, which no other run has."""
        self.title = title
        self.names = list(json.loads(inventory.read_text())["fleet"]["hosts"])
        self.log = inventory.with_name("log")
        self._inventory = str(inventory)
        self._reports = folder / REPORTS
        self._began = time.monotonic()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(TOOLS / "ansible-playbook"), "-i", self._inventory, f"kernel_thp.fleet.{playbook}", *words],
                cwd=folder,
                # The same with the time at each line, for whoever wonders where it goes.
                env={**environment(folder), "ANSIBLE_LOG_PATH": str(inventory.with_name("log.timed"))},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def until(self, condition: Callable[[], bool], what: str, timeout: float = RUN_TIMEOUT) -> None:
        """Wait for something that has to come while the run is under way."""
        deadline = time.monotonic() + timeout
        beat = time.monotonic() + HEARTBEAT
        while not condition():
            self._watch(what, deadline, timeout)
            if time.monotonic() > beat:
                self._tell()
                beat = time.monotonic() + HEARTBEAT
            time.sleep(POLL)
        say(f"  {self.title}: {what}")

    def task(self, name: str, times: int = 1, timeout: float = RUN_TIMEOUT) -> None:
        """Wait until a task of this name has begun so many times."""

        def begun() -> bool:
            return [found.endswith(name) for found in TASK.findall(self.said())].count(True) >= times

        self.until(begun, f"task `{name}` began", timeout)

    def _watch(self, what: str, deadline: float, timeout: float) -> None:
        code = self._process.poll()
        if code is not None:
            raise UserError(f"{self.title}: ended with {code} before {what}", f"read {self.log}")
        if time.monotonic() > deadline:
            raise UserError(f"{self.title}: not within {timeout:.0f} s: {what}", f"read {self.log}")

    def wait(self, timeout: float = RUN_TIMEOUT) -> int:
        """Wait for the end of the run, and return its exit code."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                code = self._process.wait(timeout=HEARTBEAT)
                break
            except subprocess.TimeoutExpired:
                self._watch("its end", deadline, timeout)
                self._tell()
        say(f"  {self.title}: ended with {code} after {time.monotonic() - self._began:.0f} s")
        return code

    def _tell(self) -> None:
        tasks = TASK.findall(self.said())
        say(f"  {self.title}: {tasks[-1] if tasks else 'starts'}")

    def kill(self) -> None:
        """As the machine's memory killer would: the controller's main process, and nobody is asked."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def left(self) -> list[int]:
        """Return the processes of it that are there: workers outlive a controller that was killed for a while."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if self._inventory.encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def end(self) -> None:
        """Leave nothing of it behind, whatever the test came to."""
        self._process.kill()
        self._process.wait()
        for process in self.left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    # What it leaves

    @property
    def directory(self) -> Path:
        """Return the directory of its report, which is named after the time and the process."""
        found = list(self._reports.glob(f"*-{self._process.pid}"))
        if len(found) != 1:
            raise UserError(f"{self.title}: {len(found)} directories for its report", f"look in {self._reports}")
        return found[0]

    def reported(self) -> bool:
        return bool(list(self._reports.glob(f"*-{self._process.pid}")))

    def report(self) -> dict[str, Any]:
        """Return report.json, which is of its documented form; the page beside it names all its hosts."""
        found: dict[str, Any] = json.loads((self.directory / "report.json").read_text())
        validate("report", found)
        page = (self.directory / "report.html").read_text()
        unnamed = [name for name in self.names if f"<td>{name}<" not in page]
        if unnamed or "src=" in page or "href=" in page:
            raise UserError(f"{self.title}: its page lacks {unnamed}, or is not complete in itself", "look at the page")
        return found

    def recap(self, name: str) -> dict[str, int]:
        """Return what Ansible counted of a host."""
        lines = dict(RECAP.findall(self.said()))
        return {key: int(value) for key, _, value in (word.partition("=") for word in lines[name].split())}
