"""Read kmemleak's report: memory that nothing points to, one record each, with the callers that allocated it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from lab.splats import Allowed
from scripts.console import UserError

ALLOWED = Path(__file__).resolve().parent / "leaks-allowed.txt"
HEAD = re.compile(r"^unreferenced object 0x[0-9a-f]+ \(size \d+\):")
FRAME = re.compile(r"^\s+(?:\[<[0-9a-f]+>\]\s*)?([\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+")
# So many callers identify a record; the first ones are the allocator's.
SHOWN = 6


def leaks(report: str, exceptions: list[Allowed]) -> list[str]:
    """Return one line for each call chain whose records are not excepted."""
    records: list[list[str]] = []
    for line in report.splitlines():
        if HEAD.match(line):
            records.append([])
        elif line.strip() and not records:
            raise UserError(f"kmemleak's report begins with `{line.strip()}`", "teach tests/kernel/leaks.py its format")
        elif frame := FRAME.match(line):
            records[-1].append(frame.group(1))
    places = Counter(" < ".join(record[:SHOWN]) or "no stack recorded" for record in records)
    return [
        f"{count} unreferenced object(s) from {place}"
        for place, count in places.items()
        if not any(entry.pattern.search(place) for entry in exceptions)
    ]
