"""Who works on a host: one controller at a time, noted in a file beside the record."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Optional

from ansible_collections.kernel_thp.fleet.plugins.module_utils import files
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import FOLDER, now

NAME = "holder.json"
Holder = dict[str, Any]
MaybeHolder = Optional[Holder]


def path(folder: Path = FOLDER) -> Path:
    return folder / NAME


def read(folder: Path = FOLDER) -> MaybeHolder:
    try:
        return dict(json.loads(files.text(path(folder)) or "null") or {}) or None
    except ValueError:
        # Half a file is nobody's: whoever holds a host has written a whole one.
        return None


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep others from reading and then writing at the same time."""
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def take(me: str, controller: str, instead_of: str = "", folder: Path = FOLDER) -> MaybeHolder:
    """Hold the host, and return who holds it otherwise. `instead_of` names a holder that is known to be gone."""
    with _alone(folder):
        other = read(folder)
        if other is not None and other["run"] not in (me, instead_of):
            return other
        if other is None or other["run"] != me:
            files.replace(path(folder), json.dumps({"run": me, "controller": controller, "since": now()}) + "\n")
        return None


def release(me: str, folder: Path = FOLDER) -> None:
    if read(folder) is None:
        return
    with _alone(folder):
        other = read(folder)
        if other is not None and other["run"] == me:
            path(folder).unlink()
