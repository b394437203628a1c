"""Estimate how much of the huge pages is zero-filled, and what each threshold would reclaim, from a sample. Reads only.

The estimate visits the aligned ranges that could be a huge page in random order and each once, so every huge page is
equally likely to be read. A huge page that several processes map counts by its share.
"""

from __future__ import annotations

import bisect
import itertools
import math
import os
import random
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from . import cgroup
from .errors import UserError
from .pagemap import Hidden, Memory, Process, process
from .system import System
from .thp import Thp

# The maximum number of huge pages read, and of ranges tried for each of them.
SAMPLES = 1024
TRIES = 64
# Seconds after which the search for processes ends, after which reading ends, and between two lines of progress.
SEARCH_SECONDS = 30.0
READ_SECONDS = 60.0
PROGRESS = 5.0
# Thresholds of interest, as shares of a huge page; the one in force, and the highest, are added.
SHARES = (0.1, 0.25, 0.5, 0.6, 0.7, 0.8, 0.9)
# The maximum probability that the true value is outside of the interval.
RISK = 0.05
LARGEST = 10


@dataclass(frozen=True)
class Reading:
    """One huge page: its process, its zero-filled pages, and the share of it that counts."""

    pid: int
    zeros: int
    weight: float


@dataclass
class Threshold:
    """The effect of a threshold. Errors are half widths of a 95 % interval; null: nothing was read."""

    pages: Annotated[int, "zero-filled pages above which a huge page is split"]
    in_force: bool
    split: Annotated[int | None, "huge pages that would be split"]
    split_error: int | None
    bytes: Annotated[int | None, "bytes that would be reclaimed"]
    bytes_error: int | None


@dataclass
class Subject:
    """One process, or all of them."""

    pid: Annotated[int | None, "null: all processes of the scope"]
    name: str
    huge_bytes: Annotated[int, "huge pages according to smaps; one that several processes map counts several times"]
    read: Annotated[int, "number of huge pages read"]
    zero_bytes: Annotated[int | None, "the zero-filled part; a huge page that several processes map counts once"]
    zero_bytes_error: Annotated[int | None, "half width of the 95 % interval"]
    thresholds: list[Threshold] = field(default_factory=list)


@dataclass
class Estimate:
    """How much of the huge pages is zero-filled (--estimate)."""

    scope: Annotated[str, "whose huge pages"]
    total: Subject
    largest: Annotated[list[Subject], "the ten processes with the most huge pages"]
    complete: Annotated[bool, "every huge page was read, so errors are 0"]
    locked_bytes: Annotated[int, "huge pages locked in memory, not counted"]
    watched_bytes: Annotated[int, "huge pages watched by userfaultfd, not read"]
    unseen_processes: Annotated[int, "processes not read, without permission or out of time"]
    read_bytes: int
    seconds: float
    cpu_seconds: float


def run(system: System, thp: Thp, pid: int | None, group: str | None, samples: int) -> Estimate:
    began, cpu = time.monotonic(), _cpu()
    if thp.huge_page_bytes is None or thp.subpages is None:
        raise UserError("this kernel has no transparent huge pages to estimate", "run this on a kernel that has them")
    scope, pids = _scope(system, pid, group)
    found, unseen = _processes(pids, thp.huge_page_bytes, pid is not None, began)
    readings: list[Reading] = []
    complete = True
    if any(one.ranges for one in found):
        try:
            with Memory(thp.page_bytes, thp.huge_page_bytes) as memory:
                readings, complete = sample(memory, found, samples, began)
        except Hidden:
            raise _not_allowed("the kernel hides where memory is") from None
        except OSError as error:
            raise _not_allowed(f"{error.filename or 'memory'}: {error.strerror}") from None
    subpages, thresholds = thp.subpages, thresholds_of_interest(thp.subpages, thp.threshold)
    total = _subject(None, "all", found, readings, complete, thp, thresholds)
    by_size = sorted(found, key=lambda one: one.huge_bytes, reverse=True)[:LARGEST]
    largest = [_subject(one.pid, one.name, [one], readings, complete, thp, thresholds) for one in by_size]
    return Estimate(
        scope=scope,
        total=total,
        largest=[one for one in largest if one.huge_bytes],
        complete=complete,
        locked_bytes=sum(one.locked_bytes for one in found),
        watched_bytes=sum(one.watched_bytes for one in found),
        unseen_processes=unseen,
        read_bytes=len(readings) * subpages * thp.page_bytes,
        seconds=time.monotonic() - began,
        cpu_seconds=_cpu() - cpu,
    )


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _not_allowed(why: str) -> UserError:
    return UserError(f"--estimate cannot see the pages of processes ({why})", "run it as root, outside of containers")


def _scope(system: System, pid: int | None, group: str | None) -> tuple[str, list[int]]:
    if pid is not None:
        return f"process {pid}", [pid]
    if group is not None:
        return f"cgroup {group}", cgroup.processes(system, group)
    return "all processes", sorted(int(path.name) for path in Path("/proc").glob("[0-9]*"))


def _processes(pids: Sequence[int], huge: int, required: bool, began: float) -> tuple[list[Process], int]:
    """Return the processes with their mappings, and how many could not be read. Leave out this process."""
    found: list[Process] = []
    unseen = 0
    progress = Progress(began)
    for number, pid in enumerate(pids):
        if time.monotonic() - began > SEARCH_SECONDS:
            return found, unseen + len(pids) - number
        progress.report(f"{number} of {len(pids)} processes searched")
        if pid == os.getpid() and not required:
            continue
        try:
            found.append(process(pid, huge))
        except (FileNotFoundError, ProcessLookupError):
            if required:
                raise UserError(f"there is no process {pid}", "pass --pid a running process") from None
        except OSError as error:
            if required:
                raise UserError(f"process {pid} cannot be read: {error.strerror}", "run this as root") from None
            unseen += 1
    return found, unseen


class Progress:
    """A line on standard error every few seconds."""

    def __init__(self, began: float) -> None:
        self._reported = began

    def report(self, what: str) -> None:
        now = time.monotonic()
        if now - self._reported > PROGRESS:
            self._reported = now
            print(f"estimate: {what}", file=sys.stderr, flush=True)


def sample(memory: Memory, found: Sequence[Process], samples: int, began: float) -> tuple[list[Reading], bool]:
    """Read huge pages in random order; the second value is True if that was all of them."""
    areas = [(one.pid, area) for one in found for area in one.areas]
    ends = list(itertools.accumulate(area.ranges for _, area in areas))
    readings: list[Reading] = []
    progress = Progress(began)
    for number in _in_random_order(ends[-1], samples * TRIES):
        if len(readings) >= samples or time.monotonic() - began > READ_SECONDS:
            return readings, False
        progress.report(f"{len(readings)} of {samples} huge pages read")
        at = bisect.bisect_right(ends, number)
        pid, area = areas[at]
        reading = _read(memory, pid, area.first + (number - ends[at] + area.ranges) * memory.huge)
        if reading is not None:
            readings.append(reading)
    return readings, ends[-1] <= samples * TRIES


def _in_random_order(count: int, at_most: int) -> Iterator[int]:
    return iter(random.sample(range(count), min(count, at_most)))


def _read(memory: Memory, pid: int, address: int) -> Reading | None:
    """Read the huge page at an address; None if there is none, or it disappears meanwhile."""
    try:
        frame = memory.huge_page(pid, address)
        if frame is None:
            return None
        zeros = memory.zero_pages(pid, address)
        # If the kernel split or moved it meanwhile, the content read may not be that of a huge page.
        if zeros is None or memory.huge_page(pid, address) != frame:
            return None
        return Reading(pid, zeros, 1 / memory.mappings(frame))
    except (FileNotFoundError, ProcessLookupError):
        return None


def thresholds_of_interest(subpages: int, in_force: int | None) -> list[tuple[int, bool]]:
    thresholds = {int(subpages * share) for share in SHARES} | {subpages - 1}
    if in_force is not None:
        thresholds.add(in_force)
    return [(threshold, threshold == in_force) for threshold in sorted(thresholds)]


def _subject(
    pid: int | None,
    name: str,
    processes: Sequence[Process],
    readings: Sequence[Reading],
    complete: bool,
    thp: Thp,
    thresholds: Sequence[tuple[int, bool]],
) -> Subject:
    assert thp.huge_page_bytes is not None and thp.subpages is not None
    huge, subpages = thp.huge_page_bytes, thp.subpages
    mine = readings if pid is None else [reading for reading in readings if reading.pid == pid]
    huge_bytes = sum(one.huge_bytes for one in processes)
    # The number of huge pages read is more recent than smaps.
    count = len(mine) if complete else huge_bytes // huge

    def scaled(values: list[float], unit: int) -> tuple[int | None, int | None]:
        if not values:
            return (0, 0) if count == 0 else (None, None)
        mean = sum(values) / len(values)
        error = 0.0 if complete else bound(values)
        return round(mean * count * unit), round(min(error, 1.0) * count * unit)

    subject = Subject(
        pid, name, huge_bytes, len(mine), *scaled([one.weight * one.zeros / subpages for one in mine], huge)
    )
    for threshold, in_force in thresholds:
        split = scaled([one.weight * (one.zeros > threshold) for one in mine], 1)
        given = scaled([one.weight * (one.zeros > threshold) * one.zeros / subpages for one in mine], huge)
        subject.thresholds.append(Threshold(threshold, in_force, *split, *given))
    return subject


def bound(values: Sequence[float], risk: float = RISK) -> float:
    """Return how far the mean of a sample is from the true one, except with probability `risk`.

    This is the two-sided empirical Bernstein bound of Maurer and Pontil for values from 0 to 1. Unlike the normal
    approximation, it does not call a small sample exact because all its values are equal.
    """
    count = len(values)
    if count < 2:
        return 1.0
    mean = sum(values) / count
    variance = sum((value - mean) ** 2 for value in values) / (count - 1)
    log = math.log(4 / risk)
    return min(1.0, math.sqrt(2 * variance * log / count) + 7 * log / (3 * (count - 1)))
