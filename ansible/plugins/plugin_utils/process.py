"""The name of this run. A run is one ansible-playbook process, so every worker can derive the name by itself.

The name stays the same as long as the process lives: no part of it comes from a clock that can be set.
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
    """Return when a process was started, in clock ticks since the boot, if there is /proc."""
    try:
        stat = (PROC / str(process) / "stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _boot() -> str:
    """Return a short id of the boot."""
    return (files.word(PROC / "sys/kernel/random/boot_id") or "boot").partition("-")[0]


def _ps_start(process: int) -> str | None:
    """Return when a process was started, on controllers without /proc: macOS and the BSDs."""
    words = ["ps", "-o", "lstart=", "-p", str(process)]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    output = subprocess.run(words, capture_output=True, text=True, check=False, env=environment).stdout.strip()
    return f"{datetime.datetime.strptime(output, '%a %b %d %H:%M:%S %Y'):%Y%m%dT%H%M%SZ}" if output else None


def name(process: int) -> str | None:
    """Return the name of the run that a process is, or None if the process is not visible."""
    ticks = _ticks(process)
    if ticks is not None:
        return f"{_boot()}-{ticks}-{process}"
    since = None if (PROC / "self/stat").exists() else _ps_start(process)
    return None if since is None else f"{since}-{process}"


def started_by() -> int:
    """Return the pid of ansible-playbook: the parent of this worker, even after it is gone."""
    parent = multiprocessing.parent_process()
    return os.getppid() if parent is None or parent.pid is None else parent.pid


def end_if_orphaned() -> None:
    """End this worker if ansible-playbook was killed: nobody gets its result, and another run may be working.

    Ansible itself would let it finish its task first, however long that takes.
    """
    if os.getppid() != started_by():
        os._exit(1)


def this_run() -> str:
    """Return the name of this run."""
    found = name(started_by())
    end_if_orphaned()
    if found is None:
        raise RuntimeError("ansible-playbook is there, and neither /proc nor ps shows it")
    return found


def controller() -> str:
    """Return the name of this machine, with a hash that differs for machines and containers of the same name."""
    machine = files.word(Path("/etc/machine-id")) or str(uuid.getnode())
    with contextlib.suppress(OSError):
        # A pid is only valid in its namespace. The machine's own namespace always has the same number.
        machine += f" {(PROC / 'self/ns/pid').stat().st_ino}"
    return f"{platform.node()}-{hashlib.sha256(machine.encode()).hexdigest()[:8]}"


def gone(run: str, of_controller: str) -> bool:
    """Say whether a run is known to be over: it was on this machine, and its process is gone."""
    process = run.rpartition("-")[2]
    if of_controller != controller() or not process.isdecimal():
        return False
    found = name(int(process))
    return found != run and not (found is None and _hidden(int(process)))


def _hidden(process: int) -> bool:
    """Say whether the process exists but is hidden from this user, as with `hidepid` for /proc."""
    try:
        os.kill(process, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        pass
    return False
