"""The kernels a gate can judge: the normal one, and the debug one, which is slow and gets more to do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.console import BUILD


@dataclass(frozen=True)
class Variant:
    package: str
    suffix: str  # of the uname
    repo: Path
    results: Path
    memory_mib: int
    slow: int  # by how much every time limit is longer
    debug: bool = False

    @property
    def core(self) -> str:
        return f"{self.package}-core"

    @property
    def uname_format(self) -> str:
        return f"%{{VERSION}}-%{{RELEASE}}.%{{ARCH}}{self.suffix}"


NORMAL = Variant("kernel-thp", "+thp", BUILD / "repo", BUILD / "gate", 2048, 1)
DEBUG = Variant("kernel-thp-debug", "+thp.debug", BUILD / "repo-debug", BUILD / "gate-debug", 4096, 10, debug=True)
