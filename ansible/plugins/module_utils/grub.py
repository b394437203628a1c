"""GRUB with BLS entries: configured by its environment block, as grub2-reboot and grub2-set-default do it.

grub2-editenv is the one program for both, and for undoing them; grub2-reboot, which calls it, cannot undo, and grubby
is not on every host. The command line of an entry is changed as for systemd-boot, which has no program for that.

Distributions differ in when a newly installed kernel becomes GRUB's default, and in which file says so. Instead of
editing all of them, a plugin of kernel-install restores the kept default whenever a kernel was added. It runs twice:
right after GRUB's own plugin, as making the initramfs takes long and the power may fail, and after all others.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import bls, command, files
from ansible_collections.kernel_thp.fleet.plugins.module_utils.bls import Entry
from ansible_collections.kernel_thp.fleet.plugins.module_utils.loader import Loader, Settings

NAMES = ("grub2", "grub")
# GRUB's own plugin is 20-grub.install. They have the same text, and settings have that of the last one.
GUARDS = tuple(f"etc/kernel/install.d/{number}-kernel-thp-default.install" for number in (21, 99))
KEPT = "var/lib/kernel-thp/default"
GUARD_TEXT = """\
#!/bin/sh
# kernel-install plugin: keeps a kernel that is installed later from becoming GRUB's default. The file names the entry
# that stays the default. The fleet rollout of kernel-thp installs both, and its rollback deletes them.
[ "$1" = add ] || exit 0
read -r entry < /var/lib/kernel-thp/default || exit 0
[ -e "/boot/loader/entries/$entry.conf" ] || exit 0
# A plugin that fails would keep the later ones from their work, such as making the initramfs.
{editenv} {block} set "saved_entry=$entry" || echo "GRUB's default is not $entry any more" >&2
exit 0
"""
# GRUB cannot write its environment block there, so a one-time boot would repeat forever.
READ_ONLY_TYPES = ("btrfs", "zfs", "f2fs")
READ_ONLY_DEVICES = ("/dev/mapper/", "/dev/dm-", "/dev/md")


def environment(listed: str) -> dict[str, str]:
    """Read what `grub2-editenv - list` prints."""
    pairs = (line.partition("=") for line in listed.splitlines() if "=" in line)
    return {key: value for key, _, value in pairs}


def obeys(config: str, key: str) -> bool:
    """Say whether grub.cfg takes its default from the environment block.

    The variable's name alone proves nothing: grub-mkconfig writes `function savedefault` into every grub.cfg.
    """
    return re.search(rf'^[^#\n]*\bset\s+default="?\$\{{?{key}\b', config, re.MULTILINE) is not None


def mounted(mountinfo: str, path: str) -> tuple[str, str]:
    """Return type and device of the file system that holds a path, from /proc/self/mountinfo."""
    best, found = "", ("", "")
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        point = left.split()[4]
        if (path == point or path.startswith(point.rstrip("/") + "/")) and len(point) >= len(best):
            kind, device = right.split()[:2]
            best, found = point, (kind, device)
    return found


class Grub(Loader):
    name = "grub"

    def __init__(self, root: Path, editenv: str, directory: Path) -> None:
        super().__init__(root, root / "boot")
        self.editenv = editenv
        # The configuration and, beside it, the environment block, which may be a link to the EFI partition.
        self.config, self.block = directory / "grub.cfg", directory / "grubenv"

    @classmethod
    def find(cls, root: Path) -> Grub | None:
        editenv = next((found for name in NAMES if (found := shutil.which(f"{name}-editenv"))), None)
        directory = next((root / "boot" / name for name in NAMES if (root / "boot" / name / "grub.cfg").exists()), None)
        if editenv is None or directory is None:
            return None
        loader = cls(root, editenv, directory)
        return loader if bls.entries(loader.folder) else None

    def settings(self) -> Settings:
        return {
            "saved_entry": self._environment().get("saved_entry"),
            "guard": files.text(self.root / GUARDS[-1]),
            "kept": files.text(self.root / KEPT),
        }

    def restore(self, settings: Settings) -> None:
        self._guard(settings["guard"])
        files.put(self.root / KEPT, settings["kept"])
        self._set("saved_entry", settings["saved_entry"])

    def keep(self, entry: Entry) -> None:
        # The guards first: without them, a kernel that is installed in between would become the default.
        files.put(self.root / KEPT, f"{entry.name}\n")
        self._guard(GUARD_TEXT.format(editenv=self.editenv, block=self.block))
        self._set("saved_entry", entry.name)

    def kept(self, entry: Entry) -> bool:
        found = self.settings()
        guarded = all(files.text(self.root / name) for name in GUARDS)
        return found["saved_entry"] == entry.name and found["kept"] == f"{entry.name}\n" and guarded

    def set_once(self, entry: Entry | None) -> None:
        self._set("next_entry", entry.name if entry else None)

    def once(self) -> str | None:
        # GRUB empties the variable before it boots the entry, and does not delete it.
        return self._environment().get("next_entry") or None

    def selected(self) -> str | None:
        return None

    def problems(self) -> list[str]:
        found = []
        config = files.text(self.config) or ""
        if "blscfg" not in config:
            found.append("grub.cfg does not use BLS entries (GRUB_ENABLE_BLSCFG=true, then grub2-mkconfig)")
        if not obeys(config, "saved_entry"):
            found.append("grub.cfg does not obey the saved default (GRUB_DEFAULT=saved, then grub2-mkconfig)")
        if not obeys(config, "next_entry"):
            found.append("grub.cfg does not support one-time boots: run grub2-mkconfig again")
        kind, device = mounted(files.text(self.root / "proc/self/mountinfo") or "", str(self.block.resolve()))
        if kind in READ_ONLY_TYPES or device.startswith(READ_ONLY_DEVICES):
            found.append(f"GRUB cannot write its environment block on {kind} on {device}: a one-time boot would repeat")
        return found

    def _guard(self, text: str | None) -> None:
        for path in (self.root / name for name in GUARDS):
            files.put(path, text, mode=0o755)
            if text is not None:
                # SELinux needs this so that kernel-install may run it; without SELinux the program is missing.
                command.run(["restorecon", str(path)])

    def _environment(self) -> dict[str, str]:
        return environment(command.output([self.editenv, str(self.block), "list"]))

    def _set(self, key: str, value: str | None) -> None:
        words = ["unset", key] if value is None else ["set", f"{key}={value}"]
        command.output([self.editenv, str(self.block), *words])
