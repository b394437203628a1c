"""Releases of kernel-thp in a repository: the names of their packages, and their `uname -r`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from lab import repo
from scripts.flavours import CLOUD

# What a rollout installs, by default; the first three are of one release.
KERNEL = (CLOUD.package, CLOUD.core, f"{CLOUD.package}-modules")
OTHERS = ("kernel-thp-selftests", "thp-tools", "tuned-profiles-thp")


@dataclass(frozen=True)
class Release:
    """`version` is VERSION-RELEASE; `packages` are full names."""

    version: str
    packages: frozenset[str]

    @property
    def uname(self) -> str:
        return f"{self.version}.x86_64{CLOUD.suffix}"


def built(directory: Path = repo.REPO) -> Release:
    """Return the one release that a repository of this project has."""
    names = [path.name.removesuffix(".rpm") for path in directory.glob("*.rpm")]
    found = frozenset(_one(name, names) for name in (*KERNEL, *OTHERS))
    (core,) = (name for name in found if name.startswith(f"{CLOUD.core}-"))
    return Release(core.removeprefix(f"{CLOUD.core}-").removesuffix(".x86_64"), found)


def _one(name: str, names: list[str]) -> str:
    (found,) = (full for full in names if re.match(rf"{re.escape(name)}-\d", full))
    return found
