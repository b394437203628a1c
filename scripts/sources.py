"""Fetch the pinned kernel source from the first place of SOURCES/sources.lock that has it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from scripts import distro, files, lock
from scripts.console import UserError, main, say, step
from scripts.kernel_org import KernelOrg
from scripts.lock import Source


class Place(Protocol):
    """Where sources of one kind come from."""

    @property
    def kind(self) -> str: ...

    def usable(self) -> bool:
        """Return whether this host has the tools that the place needs."""

    def listed(self, series: str) -> list[Source]:
        """Return what the place lists of a stable series, newest first; its files may be gone."""

    def fetch(self, source: Source, part: Path) -> bool:
        """Download to `part` and check what the place signs; return False if the place does not have it."""


def places() -> list[Place]:
    """Return every place, those with the release as it is before those with a distribution's patches."""
    apt = distro.Apt()
    return [KernelOrg(), distro.Debian(apt), distro.LinuxSource(apt), distro.Srpm()]


def part_of(source: Source) -> Path:
    """Return the name of a download until its hash is checked."""
    return source.path.with_suffix(".part")


def settle(source: Source) -> Source:
    """Rename a download to its final name if its hash is that of the lock; delete it otherwise."""
    part = part_of(source)
    found = lock.sha256(part)
    if source.sha256 not in (found, lock.UNKNOWN):
        part.unlink()
        raise UserError(
            f"{source.path.name} from {source.kind} has the wrong hash: expected {source.sha256}, found {found}",
            "do not use it; run `make sources` again, and if that does not help find out who changed the file",
        )
    part.replace(source.path)
    return replace(source, sha256=found)


def present(source: Source) -> Source | None:
    """Return the line with its hash if its file is there. Without a hash, it has to be the file fetched last."""
    if source.sha256 == lock.UNKNOWN:
        last = lock.used() if lock.USED.exists() else None
        if last is None or replace(last, sha256=lock.UNKNOWN) != source:
            return None
        source = last
    return source if source.path.exists() and lock.sha256(source.path) == source.sha256 else None


def take(source: Source, known: Sequence[Place]) -> Source | None:
    """Fetch one source from its place, and return it with its hash; None if this host cannot get it there."""
    there = present(source)
    if there:
        return there
    source.path.parent.mkdir(parents=True, exist_ok=True)
    for place in known:
        if place.kind == source.kind and place.usable() and place.fetch(source, part_of(source)):
            return settle(source)
    return None


def remember(source: Source, first: Source) -> None:
    files.replace(lock.USED, source.line())
    say(f"sources: {source.path.name} from {source.kind}, sha256 {source.sha256[:16]}")
    if source.kind != first.kind:
        say(f"*** not the tree that was tested: the first line of the lock says {first.kind} ***")


def fetch(known: Sequence[Place] | None = None) -> Source:
    """Fetch what the lock pins, in the order of its lines. Another version is never used."""
    pinned = lock.read()
    found = next(filter(None, map(present, pinned)), None)
    if found is None:
        known = places() if known is None else known
        with step(f"fetch Linux {pinned[0].version}"):
            found = next(filter(None, (take(source, known) for source in pinned)), None)
            if found is None:
                raise UserError(
                    f"no place has Linux {pinned[0].version} for this host any more: {tried(pinned, known)}",
                    "`make bump` pins the newest release; or point KERNEL_ORG or apt at an archive that has this one",
                )
    remember(found, pinned[0])
    return found


def tried(pinned: Sequence[Source], known: Sequence[Place]) -> str:
    """Return what came of each line: the newest release its place lists, or why the place was not asked."""
    results = []
    for source in pinned:
        place = next((place for place in known if place.kind == source.kind and place.usable()), None)
        if place is None:
            results.append(f"{source.kind} needs tools that this host lacks")
            continue
        listed = place.listed(source.series)
        results.append(f"{source.kind} lists {listed[0].version}" if listed else f"{source.kind} does not answer")
    return "; ".join(results)


def command() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    fetch()


if __name__ == "__main__":
    main(command)
