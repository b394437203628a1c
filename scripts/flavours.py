"""The flavours of the kernel: one spec, one series, a configuration and a package name for each."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from scripts.console import BUILD


@dataclass(frozen=True)
class Flavour:
    """`name` is what FLAVOUR= takes; `suffix` ends the uname."""

    name: str
    package: str
    suffix: str

    @property
    def rpmbuild(self) -> tuple[str, ...]:
        """The options of rpmbuild that choose it in the spec, whose default is cloud."""
        return () if self == CLOUD else (f"--with={self.name}",)

    @property
    def core(self) -> str:
        return f"{self.package}-core"

    @property
    def uname_format(self) -> str:
        """The rpm query format that gives the `uname -r` of a -core package."""
        return f"%{{VERSION}}-%{{RELEASE}}.%{{ARCH}}{self.suffix}"

    @property
    def repo(self) -> Path:
        return BUILD / ("repo" if self == CLOUD else f"repo-{self.name}")

    @property
    def debug(self) -> bool:
        return self == DEBUG


CLOUD = Flavour("cloud", "kernel-thp-cloud", "+thp.cloud")
SERVER = Flavour("server", "kernel-thp", "+thp")
DEBUG = Flavour("debug", "kernel-thp-debug", "+thp.debug")
FLAVOURS = {flavour.name: flavour for flavour in (CLOUD, SERVER, DEBUG)}


def add_option(parser: argparse._ActionsContainer) -> None:
    """Add --flavour, which is `cloud` unless given."""
    parser.add_argument("--flavour", choices=sorted(FLAVOURS), default=CLOUD.name, help="which kernel (default: cloud)")
