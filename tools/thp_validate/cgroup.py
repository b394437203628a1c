"""The processes of a cgroup, cgroup v2 or the memory controller of v1."""

from __future__ import annotations

import os
from pathlib import Path

from .errors import UserError
from .system import System

PROCS = "cgroup.procs"


def mount(system: System) -> Path:
    """Return the mount point of the hierarchy that accounts for memory."""
    unified = None
    for line in (system.read("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.partition(" ")
        point = Path(before.split()[4])
        if kind == "cgroup" and "memory" in options.split()[-1].split(","):
            return point
        if kind == "cgroup2":
            unified = point
    if unified is None:
        raise UserError("no cgroup file system is mounted", "mount one, or use --pid")
    return unified


def processes(system: System, group: str) -> list[int]:
    """Return the processes of a cgroup and of those below it. A cgroup that disappears meanwhile is no error."""
    root = mount(system)
    folder = Path(group) if group.startswith(f"{root}/") or group == str(root) else root / group.lstrip("/")
    if not (folder / PROCS).is_file():
        raise UserError(
            f"there is no cgroup {group} below {root}", "pass --cgroup a path as in /proc/PID/cgroup, or a directory"
        )
    found: set[int] = set()
    for directory, _, files in os.walk(folder):
        if PROCS in files:
            try:
                found.update(int(word) for word in (Path(directory) / PROCS).read_text().split())
            except FileNotFoundError:
                continue
            except OSError as error:
                system.unseen[f"{directory}/{PROCS}"] = error.strerror or type(error).__name__
    # The kernel lists a process of another pid namespace as 0.
    return sorted(found - {0})
