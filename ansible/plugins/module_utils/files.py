"""Read files that may be missing, and write files so that a crash leaves either the old or the new content.

Ansible's atomic_move does not do the second: it writes nothing to the disk before the rename, takes the execute
permission of a new file away, and needs a module, while the journal on the controller is written by plugins.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

POLL = 0.5
LABEL = "security.selinux"


def text(path: Path) -> str | None:
    """Return a file's content, or None when there is no such file or this host cannot read it."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def word(path: Path) -> str | None:
    content = text(path)
    return None if content is None else content.strip()


def replace(path: Path, content: str, mode: int = 0o644) -> None:
    """Replace a file by a new one that is complete and on disk first."""
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    part = Path(name)
    try:
        with os.fdopen(descriptor, "w") as handle:
            handle.write(content)
            handle.flush()
            os.fchmod(handle.fileno(), mode)
            _label_as(path, handle.fileno())
            os.fsync(handle.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _label_as(path: Path, descriptor: int) -> None:
    """Give a file the SELinux label of another one. A new file gets that of its directory from the kernel."""
    # Without SELinux there is no label, vfat and others cannot have one, and neither needs one.
    with contextlib.suppress(OSError):
        os.setxattr(descriptor, LABEL, os.getxattr(path, LABEL))


def put(path: Path, content: str | None, mode: int = 0o644) -> bool:
    """Give a file this content, or delete it for None; say whether that changed it."""
    if text(path) == content:
        return False
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, content, mode)
    return True


@contextlib.contextmanager
def locked(path: Path, timeout: float) -> Iterator[int | None]:
    """Take a lock and yield its descriptor, or None if that took too long.

    The lock lasts until the last process closes the descriptor.
    """
    with path.open("w") as handle:
        yield handle.fileno() if _lock(handle.fileno(), time.monotonic() + timeout) else None


def _lock(descriptor: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL)
