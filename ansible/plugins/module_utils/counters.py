"""Counters of a host at one moment: memory, pressure, huge pages. They start at the boot; two moments give a rate."""

from __future__ import annotations

import re
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.module_utils import files

EVENTS = re.compile(r"^(thp_\w+|oom_kill) (\d+)$", re.MULTILINE)
MEMORY = ("MemTotal", "MemAvailable", "AnonPages", "AnonHugePages", "SwapTotal", "SwapFree")


@dataclass(frozen=True)
class Counters:
    """`memory` is bytes; `pressure_us` the time that some process waited for memory, None on a host without PSI.

    `pressure_recent` is the percentage of that in the last five minutes.
    """

    time: float
    uptime: float
    memory: dict[str, int]
    events: dict[str, int]
    pressure_us: int | None
    pressure_recent: float | None = None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def events(vmstat: str) -> dict[str, int]:
    return {name: int(value) for name, value in EVENTS.findall(vmstat)}


def memory(meminfo: str) -> dict[str, int]:
    pairs = re.findall(r"^(\w+):\s+(\d+) kB$", meminfo, re.MULTILINE)
    return {name: int(value) << 10 for name, value in pairs if name in MEMORY}


def pressure(text: str) -> int | None:
    match = re.search(r"^some .*total=(\d+)", text, re.MULTILINE)
    return int(match.group(1)) if match else None


def recent(text: str) -> float | None:
    match = re.search(r"^some .*avg300=([\d.]+)", text, re.MULTILINE)
    return float(match.group(1)) if match else None


def read(root: Path = Path("/")) -> Counters:
    proc = root / "proc"
    waited = files.text(proc / "pressure" / "memory") or ""
    return Counters(
        time=time.time(),
        uptime=float((files.text(proc / "uptime") or "0").split()[0]),
        memory=memory(files.text(proc / "meminfo") or ""),
        events=events(files.text(proc / "vmstat") or ""),
        pressure_us=pressure(waited),
        pressure_recent=recent(waited),
    )


def from_dict(data: dict[str, Any]) -> Counters:
    return Counters(**{name: data[name] for name in Counters.__dataclass_fields__ if name in data})
