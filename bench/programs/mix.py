"""A program that knows which of its memory is used: half of its huge pages are full and in use, the others sparse.

After its work it prints a line of JSON with the addresses of the two halves, and stays.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import time

THP = 2 << 20
PAGE = 4 << 10
THPS = 16
# Of the 512 pages of a sparse huge page.
LIVE = 10
PASSES = 3
PRIVATE = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS


# The kernel would merge two adjacent mappings into one.
between: list[mmap.mmap] = []


def area() -> tuple[mmap.mmap, int, int]:
    """Map memory for huge pages; return it, the offset of the first one in it, and its address."""
    between.append(mmap.mmap(-1, THP, PRIVATE, prot=0))
    memory = mmap.mmap(-1, (THPS + 1) * THP, PRIVATE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    offset = -address % THP
    return memory, offset, address + offset


def main() -> None:
    page = bytes(range(1, 129)) * (PAGE // 128)
    dense, first, dense_address = area()
    sparse, start, sparse_address = area()
    for number in range(THPS):
        at = start + number * THP
        for live in range(LIVE):
            sparse[at + live * (THP // LIVE // PAGE) * PAGE] = 1
        at = first + number * THP
        for offset in range(at, at + THP, PAGE):
            dense[offset : offset + PAGE] = page
    began = time.monotonic()
    for _ in range(PASSES):
        for offset in range(first, first + THPS * THP, PAGE):
            dense[offset] = 1
    output = {
        "work": time.monotonic() - began,
        "dense": dense_address,
        "sparse": sparse_address,
        "size": THPS * THP,
        "live": THPS * LIVE * PAGE,
    }
    print(json.dumps(output), flush=True)
    time.sleep(3600)


if __name__ == "__main__":
    main()
