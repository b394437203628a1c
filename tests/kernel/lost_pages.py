"""Print the pages of processes that no process has any more and that nobody frees: runs on the host, alone.

Such a page is anonymous by /proc/kpageflags, but neither mapped nor in the swap cache: somebody took a reference and
has not given it back. Pages on their way are not lost: the lists that each CPU keeps are emptied before each look, and
only what three looks have found is printed, by page frame number and flags (admin-guide/mm/pagemap.rst of the kernel).
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

FLAGS = Path("/proc/kpageflags")
# Compacting everything begins by emptying those lists.
EMPTY_LISTS = Path("/proc/sys/vm/compact_memory")
# The file takes whole entries of so many bytes only.
ENTRY = 8
AT_ONCE = 1 << 17
ANONYMOUS = 1 << 12
# Of the slab allocator, free, mapped, in the swap cache, the tail of a compound page, poisoned (which keeps a page for
# good), shared by KSM, a page table. The first and the last use the field that says what is anonymous for other things.
ACCOUNTED_FOR = sum(1 << bit for bit in (7, 10, 11, 13, 16, 19, 21, 26))
LOOKS = 3
SECONDS_BETWEEN = 2


def is_lost(flags: int) -> bool:
    return flags & (ANONYMOUS | ACCOUNTED_FOR) == ANONYMOUS


def lost(flags: Sequence[int]) -> dict[int, int]:
    """Return the flags of each lost page; the sequence has those of all pages, by page frame number."""
    return {pfn: value for pfn, value in enumerate(flags) if is_lost(value)}


def empty_lists() -> None:
    EMPTY_LISTS.write_text("1")


def entries(file: BinaryIO, start: int, count: int) -> array[int]:
    file.seek(start * ENTRY)
    return array("Q", file.read(count * ENTRY))


def look(file: BinaryIO) -> dict[int, int]:
    """Return the lost pages of the whole machine."""
    empty_lists()
    found: dict[int, int] = {}
    start = 0
    while flags := entries(file, start, AT_ONCE):
        found.update((start + pfn, value) for pfn, value in lost(flags).items())
        start += len(flags)
    return found


def still_lost(file: BinaryIO, pages: dict[int, int]) -> dict[int, int]:
    empty_lists()
    found = {pfn: entries(file, pfn, 1)[0] for pfn in pages}
    return {pfn: flags for pfn, flags in found.items() if is_lost(flags)}


def main() -> None:
    with FLAGS.open("rb", buffering=0) as file:
        found = look(file)
        for _ in range(LOOKS - 1):
            time.sleep(SECONDS_BETWEEN)
            found = still_lost(file, found)
    for pfn, flags in found.items():
        print(f"{pfn:#x} {flags:#x}")


if __name__ == "__main__":
    main()
