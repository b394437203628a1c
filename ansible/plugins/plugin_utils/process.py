"""Which run this is. A run is one ansible-playbook process, so its name is known everywhere without being handed on."""

from __future__ import annotations

import datetime
import hashlib
import multiprocessing
import os
import platform
import subprocess
import uuid
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import files


def _ticks(process: int) -> int | None:
    """Return when a process was started, in clock ticks since the boot, where /proc tells."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[19])


def _booted() -> int:
    lines = Path("/proc/stat").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("btime ")))


def started(process: int) -> datetime.datetime | None:
    """Return when a process was started, or None if there is none."""
    ticks = _ticks(process)
    if ticks is not None:
        seconds = _booted() + ticks // os.sysconf("SC_CLK_TCK")
        return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    if Path("/proc/self/stat").exists():
        return None
    # Controllers without /proc: macOS and the BSDs.
    words = ["ps", "-o", "lstart=", "-p", str(process)]
    environment = {**os.environ, "LC_ALL": "C", "TZ": "UTC"}
    said = subprocess.run(words, capture_output=True, text=True, check=False, env=environment).stdout.strip()
    if not said:
        return None
    return datetime.datetime.strptime(said, "%a %b %d %H:%M:%S %Y").replace(tzinfo=datetime.timezone.utc)


def name(process: int) -> str | None:
    """Return the name of the run that a process is, or None if there is no such process."""
    since = started(process)
    return None if since is None else f"{since:%Y%m%dT%H%M%SZ}-{process}"


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
    """Return the name of this machine, with what tells it from others of that name."""
    machine = files.word(Path("/etc/machine-id")) or str(uuid.getnode())
    return f"{platform.node()}-{hashlib.sha256(machine.encode()).hexdigest()[:8]}"


def gone(run: str, of_controller: str) -> bool:
    """Say whether a run is known to be over: it was on this machine, and that process is not there any more."""
    process = run.rpartition("-")[2]
    return of_controller == controller() and process.isdecimal() and name(int(process)) != run
