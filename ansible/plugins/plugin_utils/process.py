"""Which run this is. A run is one ansible-playbook process, so its name is known everywhere without being handed on.

It stays the same as long as the process is there: nothing in it comes from a clock that can be set.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import multiprocessing
import os
import platform
import subprocess
import uuid
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import files

PROC = Path("/proc")


def _ticks(process: int) -> int | None:
    """Return when a process was started, in clock ticks since the boot, where /proc tells."""
    try:
        stat = (PROC / str(process) / "stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _boot() -> str:
    """Return which boot this is, in short."""
    return (files.word(PROC / "sys/kernel/random/boot_id") or "boot").partition("-")[0]


def _said_by_ps(process: int) -> str | None:
    """Return when a process was started, on controllers without /proc: macOS and the BSDs."""
    words = ["ps", "-o", "lstart=", "-p", str(process)]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    said = subprocess.run(words, capture_output=True, text=True, check=False, env=environment).stdout.strip()
    return f"{datetime.datetime.strptime(said, '%a %b %d %H:%M:%S %Y'):%Y%m%dT%H%M%SZ}" if said else None


def name(process: int) -> str | None:
    """Return the name of the run that a process is, or None if no such process can be seen."""
    ticks = _ticks(process)
    if ticks is not None:
        return f"{_boot()}-{ticks}-{process}"
    since = None if (PROC / "self/stat").exists() else _said_by_ps(process)
    return None if since is None else f"{since}-{process}"


def started_by() -> int:
    """Return ansible-playbook's process: the worker that does a task is its child, and knows so when it is gone."""
    parent = multiprocessing.parent_process()
    return os.getppid() if parent is None or parent.pid is None else parent.pid


def end_if_orphaned() -> None:
    """End this worker if ansible-playbook was killed: there is nobody to report to, and another run may be at work.

    Ansible itself lets it finish its task first, with all the time that one may take.
    """
    if os.getppid() != started_by():
        os._exit(1)


def this_run() -> str:
    """Return the name of this run."""
    found = name(started_by())
    end_if_orphaned()
    assert found is not None, "the parent of a worker is there"
    return found


def controller() -> str:
    """Return the name of this machine, with what tells it from others of that name, and from containers on it."""
    machine = files.word(Path("/etc/machine-id")) or str(uuid.getnode())
    with contextlib.suppress(OSError):
        # A number of a process means nothing outside of its namespace. That of the machine itself is always the same.
        machine += f" {(PROC / 'self/ns/pid').stat().st_ino}"
    return f"{platform.node()}-{hashlib.sha256(machine.encode()).hexdigest()[:8]}"


def gone(run: str, of_controller: str) -> bool:
    """Say whether a run is known to be over: it was on this machine, and that process is not there any more."""
    process = run.rpartition("-")[2]
    if of_controller != controller() or not process.isdecimal():
        return False
    found = name(int(process))
    return found != run and not (found is None and _hidden(int(process)))


def _hidden(process: int) -> bool:
    """Say whether there is a process that this user may not see, as where /proc is mounted with `hidepid`."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        pass
    return False
