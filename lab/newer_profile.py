"""A newer package of the tuned profiles, beside all that the present repository has: for a kernel that stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from lab import repo
from scripts import rpms
from scripts.console import BUILD
from scripts.rpms import Stage

# What a distribution puts at the end of a release.
DIST = ".2"
ROOT = BUILD / "rpmbuild-newer"
REPO = BUILD / "repo-newer"


def stage() -> Stage:
    return replace(rpms.tuned_profiles(), options=(f"--define=dist {DIST}",), root=ROOT)


def build() -> Path:
    """Return a signed repository with the present packages and the newer profiles."""
    return repo.beside_present(stage(), REPO)
