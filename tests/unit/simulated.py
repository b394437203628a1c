"""Hosts for plays, each in a folder: no play changes this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scripts import collection
from scripts.console import ROOT

OLD = "6.1.0-56-amd64"
COUNTERS = {"time": 1.0, "uptime": 2.0, "memory": {}, "events": {}, "pressure_us": 1}
BEFORE = {"uname": OLD, "tuned": {}, "boot": {}, "hugepages": {}, "sysctls": {}, "counters": COUNTERS}
# The state of a host unless a test changes it. `newest` is the release in its repository, `log` that of its kernel,
# `loaded` what the soak adds to it, and `says` has answers to modules that replace the usual ones, after `seconds` if
# they have that. With `reboots`, a boot once asks for a reboot, which Ansible itself refuses to a host with a local
# connection.
LIKE: dict[str, Any] = {"uname": OLD, "newest": "1", "log": "", "loaded": "", "tuned_gone": False, "says": {}}
# `identity` differs for each host by itself: its name, for the machine id, and the same hardware.
LIKE |= {"identity": "", "reboots": False}
UUID = "4c4c4544"
RECORD, HOLDER = "rollout.json", "holder.json"
# Ansible takes it for the interpreter of modules.
PROGRAM = """\
#!{python}
import sys
sys.path[:0] = {paths}
from tests.unit import answering
answering.main({folder!r}, sys.argv[1:])
"""


def target(release: str) -> dict[str, Any]:
    uname, packages = f"{release}.x86_64+thp.cloud", [f"core-{release}"]
    return {"release": release, "uname": uname, "packages": packages, "repositories": ["kernel-thp"]}


def rollout(phase: str, **more: object) -> dict[str, Any]:
    """Return the record of a rollout in this phase."""
    known = {"schema": 1, "run": "r0", "phase": phase, "target": target("1"), "before": BEFORE, "previous": None}
    return {**known, "packages": {"added": [], "removed": []}, "armed_in": None, **more}


@dataclass(frozen=True)
class Host:
    folder: Path

    def variables(self, **more: object) -> Mapping[str, object]:
        self.folder.mkdir(parents=True, exist_ok=True)
        python = self.folder / "python"
        paths = [str(ROOT), str(collection.link())]
        python.write_text(PROGRAM.format(python=sys.executable, paths=paths, folder=str(self.folder)))
        python.chmod(0o755)
        own = {"ansible_connection": "local", "ansible_python_interpreter": str(python), "ansible_pipelining": True}
        # Strings, as `-e name=value` gives them.
        gate = {"thp_gate_selftests": "false", "thp_gate_soak_seconds": "300", "thp_gate_services_timeout": "300"}
        given = {**gate, "thp_gate_health_timeout": "60", "thp_preflight_repair": "false"}
        return {**own, "ansible_remote_tmp": str(self.folder / "tmp"), **given, **more}

    def read(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        return dict(json.loads(path.read_text())) if path.exists() else None

    def write(self, name: str, content: object) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(json.dumps(content))

    @property
    def like(self) -> dict[str, Any]:
        return {**LIKE, **(self.read("like.json") or {})}

    def be(self, **like: object) -> None:
        """Change the state of the host."""
        self.write("like.json", {**self.like, **like})

    # What a rollout left on it

    @property
    def record(self) -> dict[str, Any]:
        """Return the record, which may be empty."""
        return self.read(RECORD) or {}

    @property
    def is_held(self) -> bool:
        return self.read(HOLDER) is not None

    def rolled_out(self, phase: str, **more: object) -> None:
        """Set the record of a rollout in this phase; from the trial on the host runs the new kernel."""
        found = rollout(phase, **more)
        self.write(RECORD, found)
        self.be(uname=found["target"]["uname"] if phase in ("booted", "done") else OLD)

    def held_by(self, run: str, controller: str) -> None:
        self.write(HOLDER, {"run": run, "controller": controller, "since": "2030-01-15T10:00:00+00:00"})

    # Calls of modules

    def noted(self, module: str, given: Mapping[str, Any]) -> None:
        with (self.folder / "calls").open("a") as log:
            log.write(json.dumps([module, given]) + "\n")

    def calls(self, module: str) -> list[dict[str, Any]]:
        """Return what a module was given, each time."""
        path = self.folder / "calls"
        calls = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        return [given for name, given in calls if name == module]
