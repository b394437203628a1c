"""The pinned sources: SOURCES/sources.lock, and the source that was fetched."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from scripts import files
from scripts.console import BUILD, ROOT, UserError

LOCK = ROOT / "SOURCES" / "sources.lock"
SOURCES = BUILD / "sources"
USED = SOURCES / "used.lock"
KERNEL_ORG, DEBIAN, LINUX_SOURCE, SRPM = "kernel.org", "debian", "linux-source", "srpm"
# Every kind, and whether its lines name the package that holds the tarball.
KINDS = {KERNEL_ORG: False, DEBIAN: False, LINUX_SOURCE: True, SRPM: True}
# In place of a hash that nobody has seen yet.
UNKNOWN = "-"
LINE = re.compile(
    r"(?P<name>\S+)\s+(?P<version>\d+(?:\.\d+)+)\s+(?P<sha256>[0-9a-f]{64}|-)\s+(?P<kind>\S+)(?:\s+(?P<package>\S+))?"
)
FORM = "'name version sha256 kind [package]'"


@dataclass(frozen=True)
class Source:
    """One line of the lock: a place that has a version."""

    name: str
    version: str
    sha256: str
    kind: str
    package: str = ""

    @property
    def path(self) -> Path:
        return SOURCES / f"{self.name}-{self.version}.tar.xz"

    @property
    def series(self) -> str:
        """The stable series the version belongs to: 6.1 for 6.1.187."""
        return ".".join(self.version.split(".")[:2])

    def line(self) -> str:
        return " ".join(filter(None, (self.name, self.version, self.sha256, self.kind, self.package))) + "\n"


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def parse(text: str, name: str) -> list[Source]:
    """Return all lines of a lock; `name` is for the errors."""
    sources = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line.strip())
        if not match:
            raise UserError(f"{name}:{number} is not {FORM}", "fix the line")
        source = Source(**match.groupdict(default=""))
        if source.kind not in KINDS:
            raise UserError(f"{name}:{number}: unknown kind {source.kind}", f"write one of {', '.join(KINDS)}")
        if bool(source.package) != KINDS[source.kind]:
            wrong = "lacks the package" if KINDS[source.kind] else "has no use for a package"
            raise UserError(f"{name}:{number}: a line of kind {source.kind} {wrong}", f"write {FORM}")
        if source.sha256 == UNKNOWN and source.kind != KERNEL_ORG:
            raise UserError(f"{name}:{number}: only kernel.org's signature replaces a hash", "write the hash")
        sources.append(source)
    if len({source.name for source in sources}) != 1 or len({source.kind for source in sources}) != len(sources):
        raise UserError(f"{name} needs lines for one source, at most one of a kind", "fix it, or `git checkout` it")
    return sources


def everything() -> list[Source]:
    """Return all lines of the lock, older versions included."""
    return parse(LOCK.read_text(), str(LOCK))


def read(path: Path | None = None) -> list[Source]:
    """Return the lines of the newest version in a lock, in their order. Older ones say what a place had last."""
    lock = path or LOCK
    sources = parse(lock.read_text(), str(lock))
    newest = max((source.version for source in sources), key=numbers)
    return [source for source in sources if source.version == newest]


def write(sources: Iterable[Source]) -> None:
    """Replace the lines of the lock, and keep the comments on top."""
    comments = [line for line in LOCK.read_text().splitlines(keepends=True) if line.startswith("#")]
    files.replace(LOCK, "".join([*comments, *(source.line() for source in sources)]))


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
