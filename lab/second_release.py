"""The next release of kernel-thp, built for real, so that it can be booted beside the first.

lab/next_release.py makes one in a minute that cannot be: its kernel still says that it is the first. This
compiles the kernel under the other name. With the compiler's cache full that takes a quarter of an hour; it is done
once for each state of the sources.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lab import repo
from scripts import rpms
from scripts.console import BUILD
from scripts.rpms import Stage

SPIN = 2
ROOT = BUILD / "rpmbuild-second"
REPO = BUILD / "repo-second"


def stage() -> Stage:
    kernel = rpms.kernel()
    return replace(kernel, options=(*kernel.options, f"--define=spin {SPIN}"), root=ROOT)


def build() -> Path:
    """Return a signed repository with both releases, the second beside everything that the first one's has."""
    return repo.beside_present(stage(), REPO)
