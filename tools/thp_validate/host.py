"""Which host this is, and whether root runs the checks, inside a container or outside."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Annotated

from .system import System


@dataclass
class Host:
    """The host, and who ran the checks."""

    name: str
    os: Annotated[str | None, "PRETTY_NAME of os-release"]
    boot_id: str | None
    memory_bytes: int | None
    anon_huge_bytes: Annotated[int | None, "AnonHugePages of /proc/meminfo"]
    container: Annotated[str | None, "the kind of container, null outside of one"]
    root: Annotated[bool, "whether root ran the checks"]


def collect(system: System) -> Host:
    release = system.read("/etc/os-release") or system.read("/usr/lib/os-release") or ""
    pretty = re.search(r'^PRETTY_NAME="?([^"\n]*)', release, re.MULTILINE)
    meminfo = system.read("/proc/meminfo") or ""
    return Host(
        name=system.word("/proc/sys/kernel/hostname") or "unknown",
        os=pretty.group(1) if pretty else None,
        boot_id=system.word("/proc/sys/kernel/random/boot_id"),
        memory_bytes=_bytes(meminfo, "MemTotal"),
        anon_huge_bytes=_bytes(meminfo, "AnonHugePages"),
        container=system.container(),
        root=os.geteuid() == 0,
    )


def _bytes(meminfo: str, name: str) -> int | None:
    match = re.search(rf"^{name}:\s+(\d+) kB$", meminfo, re.MULTILINE)
    return int(match.group(1)) << 10 if match else None
