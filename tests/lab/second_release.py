"""The next release of kernel-thp, built for real, so that it can be booted beside the first.

tests/lab/next_release.py makes one in a minute that cannot be: its kernel still says that it is the first. This
compiles the kernel under the other name. With the compiler's cache full that takes a quarter of an hour; it is done
once for each state of the sources.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

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
    second = stage()
    with rpms.alone(second):
        rpms.build(second)
        wanted = (rpms.REPO / ".inputs").read_text() + second.stamp.read_text()
        stamp = REPO / ".inputs"
        if not stamp.exists() or stamp.read_text() != wanted:
            rpms.make_repository([*sorted(rpms.REPO.glob("*.rpm")), *second.packages], REPO, wanted)
    return REPO
