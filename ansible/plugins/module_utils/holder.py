"""Who works on a host: one controller at a time, noted in a file beside the record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

from ansible_collections.kernel_thp.fleet.plugins.module_utils import files
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import FOLDER, now

NAME, LOCK = "holder.json", ".lock"
# Seconds for the step before this one to end.
PATIENCE = 300.0
Holder = dict[str, Any]
MaybeHolder = Optional[Holder]
# The descriptor of the lock, while a step is under way.
_under_way: list[int] = []


def path(folder: Path = FOLDER) -> Path:
    return folder / NAME


def read(folder: Path = FOLDER) -> MaybeHolder:
    try:
        return dict(json.loads(files.text(path(folder)) or "null") or {}) or None
    except ValueError:
        # Half a file is nobody's: whoever holds a host has written a whole one.
        return None


@contextmanager
def _alone(timeout: float, folder: Path) -> Iterator[int]:
    """Be the only one who changes the host or who holds it.

    A step that was cut off from its controller goes on, and is waited for: nobody can know what it is going to do.
    """
    with files.locked(folder / LOCK, timeout) as lock:
        if lock is None:
            other = read(folder)
            who = f"run {other['run']} of {other['controller']}" if other else "another run"
            what = f"a step of {who} has been under way on this host for more than {timeout:.0f} s"
            raise Problem(what, "see what it does (ps, /var/log/dnf.log), and try again when it has ended")
        yield lock


def take(
    me: str, controller: str, instead_of: str = "", timeout: float = PATIENCE, folder: Path = FOLDER
) -> MaybeHolder:
    """Hold the host, and return who holds it otherwise. `instead_of` names a holder that is known to be gone."""
    other = read(folder)
    # Who has to go away is told so at once, however long a step takes.
    if other is not None and other["run"] not in (me, instead_of):
        return other
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with _alone(timeout, folder):
        other = read(folder)
        if other is not None and other["run"] not in (me, instead_of):
            return other
        if other is None or other["run"] != me:
            files.replace(path(folder), json.dumps({"run": me, "controller": controller, "since": now()}) + "\n")
        return None


def release(me: str, folder: Path = FOLDER) -> None:
    found = read(folder)
    if found is None or found["run"] != me:
        # Nothing to wait for.
        return
    with _alone(PATIENCE, folder):
        found = read(folder)
        if found is not None and found["run"] == me:
            path(folder).unlink()


@contextmanager
def step(me: str, timeout: float = PATIENCE, folder: Path = FOLDER, or_nobody: bool = False) -> Iterator[None]:
    """Change the host for a run that holds it: from its first look to what it writes last, no other one can.

    `or_nobody`: that nobody holds the host is good as well.
    """
    _expect(me, folder, or_nobody)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with _alone(timeout, folder) as lock:
        # It has changed hands if this one had to wait, or came late.
        _expect(me, folder, or_nobody)
        _under_way.append(lock)
        try:
            yield
        finally:
            _under_way.remove(lock)


def step_under_way() -> tuple[int, ...]:
    """Return what a program has to inherit that may outlive its module: the step is over only when that is, too."""
    return tuple(_under_way)


def _expect(me: str, folder: Path, or_nobody: bool) -> None:
    found = read(folder)
    if found is None and or_nobody:
        return
    if found is None:
        raise Problem("this run does not hold the host", "run the role preflight first")
    if found["run"] != me:
        what = f"run {found['run']} of {found['controller']} works on this host"
        raise Problem(what, "wait for it, or see the documentation if it is gone for good")
