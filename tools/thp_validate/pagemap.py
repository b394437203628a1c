"""Find the huge pages of a process by /proc/PID/smaps, /proc/PID/pagemap and /proc/kpageflags. Reads only."""

from __future__ import annotations

import contextlib
import os
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

# Documentation/admin-guide/mm/pagemap.rst
PRESENT = 1 << 63
FRAME = (1 << 55) - 1
ANON, HEAD, TAIL = 1 << 12, 1 << 15, 1 << 16
WORD = 8
# The maximum number of files open at once.
OPEN_FILES = 128


class Hidden(Exception):
    """The kernel shows no page frame numbers to this process."""


@dataclass(frozen=True)
class Area:
    """A mapping with huge pages: the aligned ranges that could be a huge page, and the bytes that are."""

    first: int
    ranges: int
    huge_bytes: int


@dataclass
class Process:
    pid: int
    name: str
    areas: list[Area] = field(default_factory=list)
    # Huge pages not read: locked in memory, or watched by userfaultfd, where a read could block forever.
    locked_bytes: int = 0
    watched_bytes: int = 0

    @property
    def huge_bytes(self) -> int:
        return sum(area.huge_bytes for area in self.areas)

    @property
    def ranges(self) -> int:
        return sum(area.ranges for area in self.areas)


def process(pid: int, huge: int, proc: Path = Path("/proc")) -> Process:
    """Return where a process has anonymous huge pages. Raise OSError when it is gone or not readable."""
    name = (proc / str(pid) / "comm").read_text(errors="replace").strip()
    found = Process(pid, name)
    for start, end, huge_bytes, flags in _mappings((proc / str(pid) / "smaps").read_text(errors="replace")):
        first = -(-start // huge) * huge
        ranges = (end - first) // huge
        if huge_bytes == 0 or ranges <= 0:
            continue
        if "lo" in flags:
            found.locked_bytes += huge_bytes
        elif "um" in flags:
            found.watched_bytes += huge_bytes
        else:
            found.areas.append(Area(first, ranges, huge_bytes))
    return found


def _mappings(smaps: str) -> Iterator[tuple[int, int, int, set[str]]]:
    """Yield start, end, bytes of anonymous huge pages and flags of each mapping. VmFlags is the last line of each."""
    start = end = huge = 0
    for line in smaps.splitlines():
        key, _, value = line.partition(":")
        if key == "AnonHugePages":
            huge = int(value.split()[0]) << 10
        elif key == "VmFlags":
            yield start, end, huge, set(value.split())
        elif not key[0].isupper():
            start, end = (int(text, 16) for text in line.split()[0].split("-"))
            huge = 0


class Memory:
    """The memory of processes, and its page frames."""

    def __init__(self, page: int, huge: int) -> None:
        self.page = page
        self.huge = huge
        self.subpages = huge // page
        self._flags = os.open("/proc/kpageflags", os.O_RDONLY)
        try:
            self._counts = os.open("/proc/kpagecount", os.O_RDONLY)
        except OSError:
            os.close(self._flags)
            raise
        self._open: dict[str, int] = {}

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._close()
        os.close(self._flags)
        os.close(self._counts)

    def _close(self) -> None:
        for handle in self._open.values():
            os.close(handle)
        self._open.clear()

    def _file(self, pid: int, name: str) -> int:
        path = f"/proc/{pid}/{name}"
        if path not in self._open:
            if len(self._open) >= OPEN_FILES:
                self._close()
            self._open[path] = os.open(path, os.O_RDONLY)
        return self._open[path]

    def _words(self, handle: int, index: int, count: int) -> array[int]:
        return array("Q", os.pread(handle, count * WORD, index * WORD))

    def huge_page(self, pid: int, address: int) -> int | None:
        """Return the first frame of the anonymous huge page fully mapped at an address, or None."""
        pagemap = self._file(pid, "pagemap")
        head = self._words(pagemap, address // self.page, 1)
        if not head or not head[0] & PRESENT:
            return None
        frame = head[0] & FRAME
        if frame == 0:
            raise Hidden
        if frame % self.subpages:
            return None
        entries = self._words(pagemap, address // self.page, self.subpages)
        if any(not entry & PRESENT or entry & FRAME != frame + number for number, entry in enumerate(entries)):
            return None
        flags = self._words(self._flags, frame, self.subpages)
        whole = len(flags) == self.subpages and flags[0] & HEAD and flags[0] & ANON
        return frame if whole and all(flag & TAIL for flag in flags[1:]) else None

    def mappings(self, frame: int) -> int:
        """Return how often a huge page is mapped."""
        counts = self._words(self._counts, frame, 1)
        return max(1, counts[0] if counts else 1)

    def zero_pages(self, pid: int, address: int) -> int | None:
        """Count the zero-filled pages of a huge page, or None if it is gone."""
        content = b""
        with contextlib.suppress(OSError):
            content = os.pread(self._file(pid, "mem"), self.huge, address)
        if len(content) != self.huge:
            return None
        zeros = bytes(self.page)
        return sum(content.startswith(zeros, at) for at in range(0, self.huge, self.page))
