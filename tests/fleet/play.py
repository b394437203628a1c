"""Run the playbooks as an operator does: the built collection, installed by ansible-galaxy, called by its name.

A run is a process of its own, so that a test can inject a fault into a host or into the run itself.
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
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jsonschema

from lab.vm import sockets
from scripts import collection
from scripts.console import BUILD, HEARTBEAT, UserError, run_logged, say

SEARCH_PATH = BUILD / "fleet" / "collections"
HOME = BUILD / "fleet" / "ansible"
INSTALLED = SEARCH_PATH / "ansible_collections" / "kernel_thp" / "fleet"
# The configuration that docs/fleet.md recommends.
CONFIG = collection.SOURCE / "examples" / "ansible.cfg"
TOOLS = Path(sys.executable).parent
REPORTS = "kernel-thp-reports"
POLL = 0.2
RUN_TIMEOUT = 1800.0
TASK = re.compile(r"^TASK \[(.*)\]", re.MULTILINE)
RECAP = re.compile(r"^(\S+)\s*: (ok=\d+ .*)$", re.MULTILINE)
# Another controller: only its machine id differs, in a mount namespace of its own.
ELSEWHERE = ("unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/machine-id && exec "$@"')
# Emulated hosts are slow; on the other hand, a test that lets a timeout expire has to wait for it.
PATIENCE = {
    "thp_preflight_connect_timeout": 30,
    "thp_preflight_lock_timeout": 120,
    "thp_kernel_reboot_timeout": 300,
    "thp_kernel_panic_seconds": 5,
    "thp_profile_timeout": 120,
    "thp_gate_selftests": False,
    "thp_gate_selftests_timeout": 1200,
    "thp_gate_soak_seconds": 1,
    "thp_gate_soak_interval": 5,
    "thp_gate_health_timeout": 30,
    "thp_gate_silence_timeout": 300,
    "thp_rollback_connect_timeout": 30,
    "thp_rollback_lock_timeout": 600,
    "thp_rollback_return_timeout": 300,
    "thp_rollback_reboot_timeout": 300,
    "thp_rollback_profile_timeout": 120,
}


def install() -> None:
    """Build the collection and install the archive, in a directory without other collections."""
    archive = collection.build()
    words = ["collection", "install", "--offline", "--force", "-p", str(SEARCH_PATH), str(archive)]
    log = BUILD / "logs" / "galaxy-install.log"
    run_logged([str(TOOLS / "ansible-galaxy"), *words], log, "ansible-galaxy", "read the log", env=environment(BUILD))


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of an operator in a folder, without other settings of Ansible."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    return {
        **kept,
        "PATH": f"{TOOLS}:{os.environ['PATH']}",
        "PWD": str(folder),
        "ANSIBLE_CONFIG": str(CONFIG),
        "ANSIBLE_HOME": str(HOME),
        "ANSIBLE_COLLECTIONS_PATH": str(SEARCH_PATH),
        "ANSIBLE_SSH_CONTROL_PATH_DIR": str(sockets()),
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_NOCOLOR": "1",
    }


def schema(name: str) -> dict[str, Any]:
    return dict(json.loads((INSTALLED / "schemas" / f"{name}.schema.json").read_text()))


def validate(name: str, found: Mapping[str, Any]) -> None:
    """Validate what a run wrote against its schema."""
    jsonschema.validate(found, schema(name))


class Run:
    """One ansible-playbook."""

    def __init__(
        self, title: str, playbook: str, inventory: Path, words: Sequence[str], folder: Path, elsewhere: bool = False
    ) -> None:
        """Start it in a folder; its log is beside the inventory, which only this run uses."""
        self.title = title
        self.names = list(json.loads(inventory.read_text())["fleet"]["hosts"])
        self.log = inventory.with_name("log")
        self._inventory = str(inventory)
        self._reports = folder / REPORTS
        self._began = time.monotonic()
        command = [str(TOOLS / "ansible-playbook"), "-i", self._inventory, f"kernel_thp.fleet.{playbook}", *words]
        # In the background of a shell, the tests may have been started with Ctrl-C ignored.
        command = ["env", "--default-signal=INT", *command]
        if elsewhere:
            machine = inventory.with_name("machine-id")
            machine.write_text(f"{uuid.uuid4().hex}\n")
            command = [*ELSEWHERE, str(machine), *command]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                # The same log with a timestamp on each line, to find out what takes long.
                env={**environment(folder), "ANSIBLE_LOG_PATH": str(inventory.with_name("log.timed"))},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def until(self, condition: Callable[[], bool], what: str, timeout: float = RUN_TIMEOUT) -> None:
        """Wait for a condition that must become true before the run ends."""
        deadline = time.monotonic() + timeout
        beat = time.monotonic() + HEARTBEAT
        while not condition():
            self._watch(what, deadline, timeout)
            if time.monotonic() > beat:
                self._show_task()
                beat = time.monotonic() + HEARTBEAT
            time.sleep(POLL)
        say(f"  {self.title}: {what}")

    def task(self, name: str, times: int = 1, timeout: float = RUN_TIMEOUT) -> None:
        """Wait until a task of this name has begun that many times."""

        def begun() -> bool:
            return [found.endswith(name) for found in TASK.findall(self.output())].count(True) >= times

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
                self._show_task()
        say(f"  {self.title}: ended with {code} after {time.monotonic() - self._began:.0f} s")
        return code

    def _show_task(self) -> None:
        tasks = TASK.findall(self.output())
        say(f"  {self.title}: {tasks[-1] if tasks else 'starts'}")

    def kill(self) -> None:
        """Kill the controller's main process without warning, as the OOM killer would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def interrupt(self) -> None:
        """Send SIGINT to its process group, as Ctrl-C on a terminal does."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)

    def left(self) -> list[int]:
        """Return its remaining processes: workers outlive a killed controller for a while."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if self._inventory.encode() in path.read_bytes().split(b"\0"):
                    found.append(int(path.parent.name))
        return found

    def end(self) -> None:
        """Leave no process behind, whatever the result of the test."""
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
        """Return report.json, after validating it and the page beside it, which has to name all hosts."""
        found: dict[str, Any] = json.loads((self.directory / "report.json").read_text())
        validate("report", found)
        page = (self.directory / "report.html").read_text()
        unnamed = [name for name in self.names if not re.search(rf"<td>{re.escape(name)}\s*<", page)]
        if unnamed or "src=" in page or "href=" in page:
            raise UserError(f"{self.title}: its page lacks {unnamed}, or is not self-contained", "open the page")
        return found

    def recap(self, name: str) -> dict[str, int]:
        """Return what Ansible counted of a host."""
        lines = dict(RECAP.findall(self.output()))
        return {key: int(value) for key, _, value in (word.partition("=") for word in lines[name].split())}
