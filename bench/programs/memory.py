"""Memory of processes as the kernel reports it, and the settings of huge pages."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

THP = Path("/sys/kernel/mm/transparent_hugepage")
SHRINKER = THP / "shrink_underused"
# Zero-filled pages of a huge page: as in production, and the kernel's default.
THRESHOLD = 409
DEFAULT = 511
MAPPING = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) ")
KB = 1024


def set_mode(mode: str) -> str:
    """Configure huge pages for a mode; return why this kernel cannot, or an empty string."""
    if mode == "shrinker" and not SHRINKER.exists():
        return "this kernel has no shrinker for underused huge pages"
    (THP / "enabled").write_text("madvise" if mode == "madvise" else "always")
    (THP / "khugepaged" / "max_ptes_none").write_text(str(THRESHOLD if mode == "shrinker" else DEFAULT))
    if SHRINKER.exists():
        SHRINKER.write_text("1" if mode == "shrinker" else "0")
    return ""


def _kb(text: str, field: str) -> int:
    return sum(int(value) for value in re.findall(rf"^{field}:\s+(\d+) kB$", text, re.MULTILINE)) * KB


def rolled_up(pids: Iterable[int]) -> tuple[int, int]:
    """Return the resident memory of all processes, and how much of it is in huge pages, in bytes."""
    texts = [Path(f"/proc/{pid}/smaps_rollup").read_text() for pid in pids]
    return sum(_kb(text, "Rss") for text in texts), sum(_kb(text, "AnonHugePages") for text in texts)


def mapped(pid: int, address: int) -> tuple[int, int]:
    """Return the same for the mapping of a process that contains this address."""
    inside = False
    lines = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        match = MAPPING.match(line)
        if match:
            inside = int(match[1], 16) <= address < int(match[2], 16)
        elif inside:
            lines.append(line)
    text = "\n".join(lines)
    return _kb(text, "Rss"), _kb(text, "AnonHugePages")
