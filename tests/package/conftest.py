"""The built repository of FLAVOUR (cloud unless set), and queries that do not touch the host's rpm database."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts import lock, rpms
from scripts.flavours import CLOUD, FLAVOURS

FLAVOUR = FLAVOURS[os.environ.get("FLAVOUR", CLOUD.name)]
VERSION = lock.used().version
RELEASE = str(rpms.spin())
UNAME = f"{VERSION}-{RELEASE}.x86_64{FLAVOUR.suffix}"
MODULES = f"/lib/modules/{UNAME}"
META, CORE, REST, DEVEL, DEBUGINFO = (
    f"{FLAVOUR.package}{part}" for part in ("", "-core", "-modules", "-devel", "-debuginfo")
)
# No modules are built for the debug kernel later, so it has no -devel, and it has no debug information.
KERNEL = (META, CORE, REST, *(() if FLAVOUR.debug else (DEVEL, DEBUGINFO)))


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Packages:
    """The packages by name."""

    paths: dict[str, Path]

    def query(self, name: str, *options: str) -> str:
        done = run("rpm", "-qp", "--nosignature", *options, str(self.paths[name]))
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lines(self, name: str, *options: str) -> set[str]:
        return set(self.query(name, *options).splitlines())


def find(repo: Path) -> Packages:
    """Return the packages of a repository."""
    found = {}
    for path in repo.glob("*.rpm"):
        found[run("rpm", "-qp", "--nosignature", "--queryformat", "%{NAME}", str(path)).stdout] = path
    assert found, f"there is no package in {repo}: run `make rpms`"
    return Packages(found)


@pytest.fixture(scope="session")
def packages() -> Packages:
    return find(FLAVOUR.repo)


@pytest.fixture(scope="session")
def unpacked(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpack the packages that hold files, as a host would have them."""
    root = tmp_path_factory.mktemp("unpacked")
    for name in KERNEL[1:]:
        if name == DEBUGINFO:  # large, and not for every host
            continue
        rpms.extract(packages.paths[name], root)
    return root
