"""A Python program with a sparse heap: a table far larger than its content, and many objects of which most are freed.

After its work it prints a line of JSON, and stays.
"""

from __future__ import annotations

import json
import mmap
import random
import time

SIZE = 64 << 20
STRIDE = 50 << 10
OBJECTS = 60_000
LOOKUPS = 40_000


def main() -> None:
    chance = random.Random(1)
    table = mmap.mmap(-1, SIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    slots = range(0, SIZE, STRIDE)
    for slot in slots:
        table[slot] = 1
    kept = {number: f"object {number}" * 8 for number in range(OBJECTS)}
    for number in range(OBJECTS):
        if number % 5:
            del kept[number]
    began = time.monotonic()
    found = sum(table[chance.choice(slots)] + (chance.randrange(OBJECTS) in kept) for _ in range(LOOKUPS))
    print(json.dumps({"work": time.monotonic() - began, "found": found}), flush=True)
    time.sleep(3600)


if __name__ == "__main__":
    main()
