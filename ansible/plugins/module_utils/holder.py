"""Which run works on a host: one at a time, noted in a file beside the record."""

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
# Seconds to wait for the previous step to end.
PATIENCE = 300.0
Holder = dict[str, Any]
MaybeHolder = Optional[Holder]
# The descriptor of the lock, while a step is running.
_under_way: list[int] = []


def path(folder: Path = FOLDER) -> Path:
    return folder / NAME


def read(folder: Path = FOLDER) -> MaybeHolder:
    try:
        return dict(json.loads(files.text(path(folder)) or "null") or {}) or None
    except ValueError:
        # A truncated file belongs to nobody: a run holds the host only once the whole file is written.
        return None


@contextmanager
def _alone(timeout: float, folder: Path) -> Iterator[int]:
    """Lock out every other step and holder.

    A step that lost its controller keeps running, and is waited for: nobody can know what it is going to do.
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
    """Hold the host, or return who else holds it. `instead_of` names a holder that is known to be gone."""
    other = read(folder)
    # Refuse another run at once, without waiting for a step.
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
        # No need to wait for a step.
        return
    with _alone(PATIENCE, folder):
        found = read(folder)
        if found is not None and found["run"] == me:
            path(folder).unlink()


@contextmanager
def step(me: str, timeout: float = PATIENCE, folder: Path = FOLDER, or_nobody: bool = False) -> Iterator[None]:
    """Change the host for the run that holds it. Until the step has ended, no other run can take the host.

    `or_nobody` also allows a host that nobody holds.
    """
    _expect(me, folder, or_nobody)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with _alone(timeout, folder) as lock:
        # The holder may have changed while this step waited.
        _expect(me, folder, or_nobody)
        _under_way.append(lock)
        try:
            yield
        finally:
            _under_way.remove(lock)


def step_under_way() -> tuple[int, ...]:
    """Return the descriptors for a program that may outlive its module: the step lasts until it ends, too."""
    return tuple(_under_way)


def _expect(me: str, folder: Path, or_nobody: bool) -> None:
    found = read(folder)
    if found is None and or_nobody:
        return
    if found is None:
        raise Problem("this run does not hold the host", "run the role preflight first")
    if found["run"] != me:
        what = f"run {found['run']} of {found['controller']} works on this host"
        raise Problem(what, "wait for it, or see docs/fleet.md of the collection if it is gone for good")
