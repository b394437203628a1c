"""Play the collection's playbooks with hosts that are gone, and with hosts that give every module the same answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Variables = Mapping[str, object]

# A port on which nobody listens.
GONE: Variables = {"ansible_host": "127.0.0.1", "ansible_port": 1}
SOON = {"thp_preflight_connect_timeout": 1, "thp_gate_connect_timeout": 1, "thp_rollback_connect_timeout": 1}
# The same answer to every module: a host that is no RPM host, is supported, and never had a rollout.
SAYS = {
    "ping": "pong",
    "host": {"root": True, "rpm": False, "dnf": False},
    "record": None,
    "problems": [],
    "reboots": False,
    "validate": {"kernel": {"uname": "6.1"}, "verdict": "supported"},
    "counters": {},
}


def there(folder: Path, first: str = ":") -> Variables:
    """Return the variables of a host that answers; it has no Python, and so nothing is done on the controller.

    `first` is what the shell does each time before it answers.
    """
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{first}\necho '{json.dumps(SAYS)}'\n")
    python.chmod(0o755)
    return {"ansible_connection": "local", "ansible_python_interpreter": str(python)}


@dataclass(frozen=True)
class Played:
    code: int
    output: str
    reports: Path

    def runs(self) -> list[Path]:
        return sorted(path.parent for path in self.reports.glob("*/run.json") if not path.parent.is_symlink())

    def report(self) -> dict[str, Any]:
        path = self.reports / "latest" / "report.json"
        assert path.exists(), f"there is no report; ansible-playbook ended with {self.code}:\n{self.output}"
        return dict(json.loads(path.read_text()))

    def results(self) -> dict[str, str]:
        return {host["host"]: host["result"] for host in self.report()["hosts"]}

    def failed(self, name: str) -> dict[str, Any]:
        (found,) = (host for host in self.report()["hosts"] if host["host"] == name)
        return dict(found["failed"])


def inventory(folder: Path, hosts: Mapping[str, Variables], variables: Variables | None = None) -> Path:
    path = folder / "inventory.json"
    path.write_text(json.dumps({"all": {"hosts": hosts, "vars": {**SOON, **(variables or {})}}}))
    return path


def play(
    ansible: Mapping[str, str],
    folder: Path,
    hosts: Mapping[str, Variables],
    playbook: str | Path,
    *words: str,
    variables: Variables | None = None,
) -> Played:
    """Play it from a folder, in which the reports are then."""
    name = str(playbook) if isinstance(playbook, Path) else f"kernel_thp.fleet.{playbook}"
    command = ["ansible-playbook", "-i", str(inventory(folder, hosts, variables)), name, *words]
    environment = {**ansible, "PWD": str(folder)}
    done = subprocess.run(
        command, env=environment, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    return Played(done.returncode, done.stdout + done.stderr, folder / "kernel-thp-reports")
