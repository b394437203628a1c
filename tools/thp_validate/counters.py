"""The kernel's counters about huge pages, and what their change over a time means."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .system import System
from .thp import Thp

SCANNED = "thp_underused_scan_page"
SPLIT = "thp_underused_split_page"
DROPPED = "thp_zero_subpages_dropped"
ANONYMOUS = "nr_anon_transparent_hugepages"
# Not of the kernel's vmstat, but what the rest has to be seen against: time some process waited for memory.
PRESSURE = "psi_memory_some_us"
NAMES = re.compile(rf"thp_\w+|{ANONYMOUS}|oom_kill")


@dataclass
class Watch:
    seconds: float
    change: dict[str, int] = field(default_factory=dict)
    meaning: str = ""


def look(system: System) -> dict[str, int]:
    found = {}
    for line in (system.read("/proc/vmstat") or "").splitlines():
        name, _, value = line.partition(" ")
        if NAMES.fullmatch(name) and value.isdecimal():
            found[name] = int(value)
    pressure = re.search(r"^some .*total=(\d+)", system.read("/proc/pressure/memory") or "", re.MULTILINE)
    if pressure:
        found[PRESSURE] = int(pressure.group(1))
    return found


def watch(system: System, thp: Thp, seconds: float, sleep: Callable[[float], None] = time.sleep) -> Watch:
    began, before = time.monotonic(), look(system)
    print(f"watch: the counters, for {seconds:g} s", file=sys.stderr, flush=True)
    sleep(seconds)
    after = look(system)
    change = {name: after[name] - before[name] for name in after if name in before}
    return Watch(time.monotonic() - began, change, meaning(change, thp))


def meaning(change: dict[str, int], thp: Thp) -> str:
    """Say in one sentence what the change shows."""
    if SPLIT not in change:
        return "this kernel has no counter of underused huge pages, so nothing can be said"
    if change[SPLIT]:
        text = f"{change[SPLIT]} underused huge pages were split"
        if DROPPED in change:
            text += f", {change[DROPPED] * thp.page_bytes >> 10} KiB of zero-filled pages given back by all splits"
        return text
    if change.get(SCANNED):
        return f"{change[SCANNED]} huge pages were judged and all are in use, by the present limit of {thp.limit}"
    if PRESSURE not in change:
        return "nothing was split; this kernel does not say whether memory was short (no /proc/pressure)"
    if change[PRESSURE]:
        return "memory was short, and no underused huge page was found"
    return "memory was not short, so nothing had to be given back"
