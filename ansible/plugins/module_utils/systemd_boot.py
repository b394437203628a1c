"""systemd-boot: configured by EFI variables, which override loader.conf and which no package changes."""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import bls, command
from ansible_collections.kernel_thp.fleet.plugins.module_utils.bls import Entry
from ansible_collections.kernel_thp.fleet.plugins.module_utils.loader import Loader, Settings

VARIABLES = "sys/firmware/efi/efivars"
VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
DEFAULT, ONCE, SELECTED, INFO = "LoaderEntryDefault", "LoaderEntryOneShot", "LoaderEntrySelected", "LoaderInfo"
# The usual mount points of the boot partition, for a bootctl that does not print it.
PLACES = ("efi", "boot", "boot/efi")


def variable(root: Path, name: str) -> str | None:
    """Return an EFI variable: four bytes of attributes, then UTF-16 with a zero at its end."""
    try:
        content = (root / VARIABLES / f"{name}-{VENDOR}").read_bytes()
    except OSError:
        return None
    return content[4:].decode("utf-16-le", errors="replace").rstrip("\0") or None


class SystemdBoot(Loader):
    name = "systemd-boot"

    @classmethod
    def find(cls, root: Path) -> SystemdBoot | None:
        """Return the loader if it started the running kernel; other loaders set the same variable."""
        if not (variable(root, INFO) or "").startswith("systemd-boot"):
            return None
        path = command.run(["bootctl", "--print-boot-path"]).out.strip()
        places = [Path(path)] if path else [root / place for place in PLACES]
        boot = next((place for place in places if (place / "loader" / "entries").is_dir()), places[0])
        return cls(root, boot)

    def settings(self) -> Settings:
        return {"default": variable(self.root, DEFAULT)}

    def restore(self, settings: Settings) -> None:
        # An empty name deletes the variable.
        command.output(["bootctl", "set-default", settings["default"] or ""])

    def keep(self, entry: Entry) -> None:
        command.output(["bootctl", "set-default", bls.pattern(entry)])

    def kept(self, entry: Entry) -> bool:
        return bls.names(entry, variable(self.root, DEFAULT))

    def set_once(self, entry: Entry | None) -> None:
        # systemd-boot 252 does not find an entry with tries by the id that bootctl lists.
        command.output(["bootctl", "set-oneshot", "" if entry is None else bls.pattern(entry)])

    def once(self) -> str | None:
        return variable(self.root, ONCE)

    def selected(self) -> str | None:
        return variable(self.root, SELECTED)

    def problems(self) -> list[str]:
        found = []
        if not os.access(self.root / VARIABLES, os.W_OK):
            found.append("EFI variables cannot be written, so systemd-boot cannot boot a kernel once")
        if command.run(["bootctl", "--version"]).code != 0:
            found.append("bootctl is missing, so systemd-boot cannot boot a kernel once")
        return found
