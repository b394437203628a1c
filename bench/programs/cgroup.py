"""A memory cgroup of version 2 for one program."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
PATIENCE = 10.0


class Cgroup:
    """A context manager: leaving it kills all processes of the cgroup."""

    def __init__(self, name: str, limit: int | None) -> None:
        self.path = ROOT / f"bench-{name}"
        self.limit = limit

    def __enter__(self) -> Cgroup:
        (ROOT / "cgroup.subtree_control").write_text("+memory")
        self.path.mkdir()
        if self.limit is not None:
            (self.path / "memory.max").write_text(str(self.limit))
        return self

    def __exit__(self, *_: object) -> None:
        (self.path / "cgroup.kill").write_text("1")
        # cgroup.procs no longer lists a process whose main thread has exited, although other threads may still run.
        end = time.monotonic() + PATIENCE
        while self._event("cgroup.events", "populated") and time.monotonic() < end:
            time.sleep(0.05)
        self.path.rmdir()

    def _read(self, name: str) -> str:
        return (self.path / name).read_text()

    def _event(self, name: str, key: str) -> int:
        return int(dict(line.split() for line in self._read(name).splitlines())[key])

    def pids(self) -> list[int]:
        return [int(pid) for pid in self._read("cgroup.procs").split()]

    def peak(self) -> int:
        return int(self._read("memory.peak"))

    def killed(self) -> int:
        """Return how many processes the OOM killer killed."""
        return self._event("memory.events", "oom_kill")

    def pressure(self) -> float:
        """Return for how many seconds some process waited for memory."""
        return int(self._read("memory.pressure").splitlines()[0].rpartition("total=")[2]) / 1e6

    def reclaim(self, size: int) -> None:
        """Have the kernel reclaim up to this size; reclaiming less is no error."""
        with contextlib.suppress(OSError):
            (self.path / "memory.reclaim").write_text(str(size))
