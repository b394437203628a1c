"""What the blocks of memory hold, by /proc/kpageflags. Only free and movable pages can make room for a huge page.

Reads only. Of a large host it reads a sample: memory in parts of the same size, one random block of each.
"""

from __future__ import annotations

import bisect
import itertools
import os
import random
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from .pagemap import ANON, WORD
from .system import System
from .thp import Thp

KPAGEFLAGS = "/proc/kpageflags"
# The maximum number of pages read: 4096 blocks of 512.
PAGES = 1 << 21
# A block is a hostage of its unmovable pages if they are at most this share of it.
HOSTAGE_SHARE = 0.1
# Unmovable memory is less than a tenth of most hosts: where it was kept together, fewer blocks than that have some.
MOST_SPREAD = 0.1
KINDS = ("free", "movable", "hostage", "mixed", "unmovable")
# Documentation/admin-guide/mm/pagemap.rst, and PRIVATE of include/linux/kernel-page-flags.h
LOCKED, LRU, BUDDY, NOPAGE, LARGE, OFFLINE, ZEROS, PRIVATE = (1 << bit for bit in (0, 5, 10, 20, 22, 23, 24, 35))
# Linux 6.1 has LRU only on the first page of a large folio, and on the others of a file's only LARGE.
MOVABLE = LRU | ANON | LARGE
# A page without any other flag may be one on the free list of a CPU, which has none at all, or one of zswap, zram or a
# balloon, which compaction can move.
IN_DOUBT = LOCKED | OFFLINE | PRIVATE


@dataclass
class Blocks:
    """How many blocks were read, and how many of these are of each kind. Each is of one of the five."""

    COMPUTED: ClassVar = ("fragmented",)
    block_bytes: Annotated[int, "a block is as large as a huge page"]
    complete: Annotated[bool, "every block was read; otherwise a sample of them"]
    sampled: Annotated[int, "blocks read, without those that have holes; more than 0"]
    free: Annotated[int, "all pages are free"]
    movable: Annotated[int, "free and movable pages"]
    hostage: Annotated[int, "at most a tenth of the pages is unmovable, the rest free or movable"]
    mixed: Annotated[int, "more than a tenth of the pages is unmovable, and others are movable"]
    unmovable: Annotated[int, "more than a tenth of the pages is unmovable, the rest free"]
    doubtful: Annotated[int, "of hostage and mixed: all pages that look unmovable may be free or movable"]

    @property
    def spread(self) -> float:
        """The share of the blocks in which unmovable pages are certain, and share it with others."""
        return (self.hostage + self.mixed - self.doubtful) / self.sampled

    @property
    def fragmented(self) -> bool:
        """Whether hostage and mixed without doubtful are more than 10 % of sampled; does not change the verdict."""
        return self.spread > MOST_SPREAD


def collect(system: System, thp: Thp) -> Blocks | None:
    """Return None where the blocks cannot be read. Why is not recorded, as no check needs them."""
    subpages = thp.subpages
    if thp.huge_page_bytes is None or not subpages:
        return None
    areas = zones(system.read("/proc/zoneinfo") or "", subpages)
    found: Counter[str] = Counter()
    try:
        with system.path(KPAGEFLAGS).open("rb", buffering=0) as file:
            for block in chosen(areas, PAGES // subpages):
                words = os.pread(file.fileno(), subpages * WORD, block * subpages * WORD)
                found.update(kinds(Counter(array("Q", words)), subpages))
    except OSError:
        return None
    if not found["sampled"]:
        return None
    names = ("sampled", *KINDS, "doubtful")
    complete = sum(map(len, areas)) <= PAGES // subpages
    return Blocks(thp.huge_page_bytes, complete, *(found[name] for name in names))


def zones(zoneinfo: str, subpages: int) -> list[range]:
    """Return the numbers of the blocks in each zone, those of memory that is between zones left out."""
    found: list[range] = []
    spanned = 0
    for name, *values in (line.split() for line in zoneinfo.splitlines() if line.strip()):
        if name == "spanned":
            spanned = int(values[0])
        elif name == "start_pfn:":
            first = int(values[0])
            found.append(range(first // subpages, -(-(first + spanned) // subpages)))
    found.sort(key=lambda zone: zone.start)
    # Zones can share a block, and those of different nodes can overlap.
    ends = itertools.accumulate((zone.stop for zone in found), max, initial=0)
    return [range(max(zone.start, end), zone.stop) for zone, end in zip(found, ends) if zone.stop > end]


def chosen(areas: Sequence[range], at_most: int) -> Iterator[int]:
    """Yield every block, or one at random of each of `at_most` parts of the same size."""
    ends = list(itertools.accumulate(map(len, areas), initial=0))
    parts = min(ends[-1], at_most)
    for part in range(parts):
        number = random.randrange(part * ends[-1] // parts, (part + 1) * ends[-1] // parts)
        at = bisect.bisect_right(ends, number) - 1
        yield areas[at][number - ends[at]]


def kinds(flags: Mapping[int, int], subpages: int) -> list[str]:
    """Return what to count a block as, by the number of its pages with the same flags; nothing if it has a hole."""
    if sum(flags.values()) < subpages or any(word & NOPAGE for word in flags):
        return []
    free = sum(count for word, count in flags.items() if word & BUDDY)
    fixed = {word: count for word, count in flags.items() if not word & BUDDY and not _movable(word)}
    unmovable = sum(fixed.values())
    if free == subpages:
        return ["sampled", "free"]
    if not unmovable:
        return ["sampled", "movable"]
    doubtful = [] if any(word & ~IN_DOUBT for word in fixed) else ["doubtful"]
    if unmovable <= HOSTAGE_SHARE * subpages:
        return ["sampled", "hostage", *doubtful]
    if free + unmovable < subpages:
        return ["sampled", "mixed", *doubtful]
    return ["sampled", "unmovable"]


def _movable(word: int) -> bool:
    return bool(word & MOVABLE) and not word & ZEROS
