"""Build a small kernel from a configuration on top of allnoconfig, for a direct boot."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts import files, kconfig
from scripts.compiler import cached
from scripts.console import run_logged

IMAGE = Path("arch/x86/boot/bzImage")


@dataclass(frozen=True)
class Place:
    """Where kernels are built one after the other, each with few files to compile."""

    source: Path
    objects: Path
    log: Path

    def make(self, goals: Sequence[str], what: str, *more: str) -> None:
        where = ["-C", str(self.source), f"O={self.objects}"]
        command = ["make", "-s", *where, f"-j{os.cpu_count()}", f"CC={cached()}", *more, *goals]
        run_logged(command, self.log, what, "fix what the log reports")

    def configure(self, config: Path) -> list[str]:
        """Make the configuration; return the options that Kconfig does not grant."""
        self.objects.mkdir(parents=True, exist_ok=True)
        self.make(["allnoconfig"], "configuration", f"KCONFIG_ALLCONFIG={config}")
        return refused(kconfig.parse(config.read_text()), self.configuration())

    def configuration(self) -> dict[str, str]:
        return kconfig.parse((self.objects / ".config").read_text())

    def image(self, name: str, *more: str) -> Path:
        """Build the kernel from the present source; `more` are further arguments of make."""
        self.make(["bzImage"], f"kernel {name}", *more)
        return self.objects / IMAGE


def options(*parts: Path) -> dict[str, str]:
    """Return the options of several configurations, of which later ones win over earlier ones."""
    return {option: value for part in parts for option, value in kconfig.parse(part.read_text()).items()}


def merged(target: Path, *parts: Path) -> Path:
    """Write a configuration in which later parts win over earlier ones."""
    target.parent.mkdir(parents=True, exist_ok=True)
    files.replace(target, "".join(f"{option}={value}\n" for option, value in options(*parts).items()))
    return target


def refused(wanted: dict[str, str], have: dict[str, str]) -> list[str]:
    """Return the wanted options that a configuration lacks; an option that is missing is not set."""
    return [f"{option}={value}" for option, value in wanted.items() if have.get(option, "n") != value]
