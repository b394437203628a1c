"""Hold huge pages of known content until stdin ends: `sparse.py COUNT LIVE[,LIVE...] [fork] [lock]`.

The COUNT huge pages contain LIVE 4K pages of data each, by turns; all other pages are zero-filled. Prints `ready N`
when done, where N is the number of actual huge pages. A separate script because the tests copy it to hosts.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from pathlib import Path

PAGE = 4096
HUGE = int(Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").read_text())


def huge_pages() -> int:
    lines = Path("/proc/self/smaps").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("AnonHugePages:")) // HUGE


def main(count: int, live: list[int], words: list[str]) -> None:
    area = mmap.mmap(-1, (count + 1) * HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_HUGEPAGE)
    address = ctypes.addressof(ctypes.c_char.from_buffer(area))
    first = -address % HUGE
    for number in range(count):
        for page in range(live[number % len(live)]):
            # The byte differs between pages: any byte that is not zero makes its page one in use.
            area[first + number * HUGE + page * PAGE + page * 37 % PAGE] = 1
    if "lock" in words:
        ctypes.CDLL(None, use_errno=True).mlock(ctypes.c_void_p(address + first), ctypes.c_size_t(count * HUGE))
    if "fork" in words and os.fork() == 0:
        sys.stdin.read()
        os._exit(0)
    print(f"ready {huge_pages()}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]), [int(word) for word in sys.argv[2].split(",")], sys.argv[3:])
