"""The kernel's counters of huge pages, and what their changes mean."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from .system import System
from .thp import Thp

SCANNED = "thp_underused_scan_page"
SPLIT = "thp_underused_split_page"
DROPPED = "thp_zero_subpages_dropped"
ANONYMOUS = "nr_anon_transparent_hugepages"
# Not from vmstat, but the context for the rest: how long any process waited for memory.
PRESSURE = "psi_memory_some_us"
NAMES = re.compile(rf"thp_\w+|{ANONYMOUS}|oom_kill")


@dataclass
class Watch:
    """How the counters changed in that time (--watch)."""

    seconds: float
    change: dict[str, int] = field(default_factory=dict)
    meaning: Annotated[str, "the change in one sentence"] = ""


def collect(system: System) -> dict[str, int]:
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
    began, before = time.monotonic(), collect(system)
    print(f"watch: the counters, for {seconds:g} s", file=sys.stderr, flush=True)
    sleep(seconds)
    after = collect(system)
    change = {name: after[name] - before[name] for name in after if name in before}
    return Watch(time.monotonic() - began, change, meaning(change, thp))


def meaning(change: dict[str, int], thp: Thp) -> str:
    """Return in one sentence what the change means."""
    if SPLIT not in change:
        return "this kernel has no counter of underused huge pages"
    if change[SPLIT]:
        text = f"{change[SPLIT]} underused huge pages were split"
        if DROPPED in change:
            text += f", {change[DROPPED] * thp.page_bytes >> 10} KiB of zero-filled pages reclaimed by all splits"
        return text
    if change.get(SCANNED):
        return f"{change[SCANNED]} huge pages were checked, none is underused at the threshold of {thp.threshold}"
    if PRESSURE not in change:
        return "nothing was split; this kernel does not report whether memory was short (no /proc/pressure)"
    if change[PRESSURE]:
        return "memory was short, but no underused huge page was found"
    return "memory was not short, so the kernel had nothing to reclaim"
