"""The pinned sources: SOURCES/sources.lock, and the source that was fetched."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from scripts.console import BUILD, ROOT, UserError

LOCK = ROOT / "SOURCES" / "sources.lock"
SOURCES = BUILD / "sources"
USED = SOURCES / "used.lock"
LINE = re.compile(r"(?P<name>\S+)\s+(?P<version>\d+(?:\.\d+)+)\s+(?P<sha256>[0-9a-f]{64})\s+(?P<kind>\S+)")


@dataclass(frozen=True)
class Source:
    """One line of the lock."""

    name: str
    version: str
    sha256: str
    kind: str

    @property
    def path(self) -> Path:
        return SOURCES / f"{self.name}-{self.version}.tar.xz"

    @property
    def series(self) -> str:
        """The stable series the version belongs to: 6.1 for 6.1.187."""
        return ".".join(self.version.split(".")[:2])

    def line(self) -> str:
        return f"{self.name} {self.version} {self.sha256} {self.kind}\n"


def read(path: Path | None = None) -> list[Source]:
    """Return the lines of a lock in order; all of them name one version of one source."""
    lock = path or LOCK
    sources = []
    for number, line in enumerate(lock.read_text().splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            match = LINE.fullmatch(line.strip())
            if not match:
                raise UserError(f"{lock}:{number} is not 'name version sha256 kind'", "fix the line")
            sources.append(Source(**match.groupdict()))
    if len({(source.name, source.version) for source in sources}) != 1:
        raise UserError(f"{lock} does not pin exactly one version of one source", "fix it, or `git checkout` it")
    return sources


def sha256(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as handle:
        while block := handle.read(1 << 20):
            total.update(block)
    return total.hexdigest()


def used() -> Source:
    """Return the source that was fetched, which every later step builds from."""
    if not USED.exists():
        raise UserError("the kernel source has not been fetched", "run `make sources`")
    return read(USED)[0]
