"""Whether lockdep was still at work in the end.

It switches itself off after its first report, and when one of its tables is full. What is wrong with locks later, it
does not see.
"""

from __future__ import annotations

import re

STATS = "/proc/lockdep_stats"
DEBUG_LOCKS = re.compile(r"^ *debug_locks: +(\d+)\s*$", re.MULTILINE)


def problems(text: str) -> list[str]:
    """Return why a run is refused whose lockdep_stats, or the end of whose console, this is."""
    if DEBUG_LOCKS.findall(text)[-1:] == ["1"]:
        return []
    return [f"lockdep was not at work until the end (debug_locks in {STATS})"]
