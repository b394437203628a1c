"""The programs whose memory is measured. Each does its work, prints a line of JSON about it, and stays."""

from __future__ import annotations

import sys
from dataclasses import dataclass

PACKAGE = __name__.rpartition(".")[0]
MIB = 1 << 20


@dataclass(frozen=True)
class Workload:
    """`limit` is the program's memory where memory is tight: 15 % above its peak with `madvise`."""

    name: str
    module: str
    limit: int

    @property
    def command(self) -> tuple[str, ...]:
        return (sys.executable, "-m", f"{PACKAGE}.{self.module}")


WORKLOADS = (
    Workload("python", "table", 27 * MIB),
    Workload("mix", "mix", 43 * MIB),
)
# Read before the first measurement: their page cache is then charged to none of the cgroups.
WARM = ("/usr/lib/x86_64-linux-gnu/*.so*", "/usr/lib/python3*/**/*.py*")
