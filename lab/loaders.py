"""The boot loaders of lab hosts: where their entries are, and how an administrator of such a host names one to boot."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import ClassVar

from lab.vm import Vm
from scripts.console import UserError


class Loader(ABC):
    """Entries are named by their file. `boot` is where the partition with kernels and entries is mounted."""

    boot: ClassVar[str]
    entries: ClassVar[str]

    def __init__(self, vm: Vm) -> None:
        self.vm = vm

    @abstractmethod
    def set_default(self, entry: str) -> None: ...

    @abstractmethod
    def once_command(self, entry: str) -> str:
        """Return the command that has the next boot, and no other, take this entry."""

    def set_once(self, entry: str) -> None:
        self.vm.run(self.once_command(entry))

    @abstractmethod
    def started(self, entry: str) -> str:
        """Return the entry that the running system was started from, to be compared with this one."""


class SystemdBoot(Loader):
    boot = "/efi"
    entries = "/efi/loader/entries"

    def set_default(self, entry: str) -> None:
        self.vm.run(f"bootctl set-default {entry}")

    def once_command(self, entry: str) -> str:
        return f"bootctl set-oneshot {entry}"

    def started(self, entry: str) -> str:
        return self.vm.loader_variable("LoaderEntrySelected")


class Grub(Loader):
    """It takes an entry by the name of its file without .conf, and leaves the kernel's path on the command line."""

    boot = "/boot"
    entries = "/boot/loader/entries"

    def set_default(self, entry: str) -> None:
        self.vm.run(f"grub2-set-default {entry.removesuffix('.conf')}")

    def once_command(self, entry: str) -> str:
        return f"grub2-reboot {entry.removesuffix('.conf')}"

    def started(self, entry: str) -> str:
        """GRUB does not report the entry, so tell it by the kernel's path: entries of one kernel look the same."""
        path = self.vm.run(f"sed -n 's/^linux //p' {self.entries}/{entry}").text
        words = self.vm.run("cat /proc/cmdline").text.split()
        booted = next((word for word in words if word.startswith("BOOT_IMAGE=")), "no BOOT_IMAGE")
        # Before 2.14, the path has the device in front of it, in parentheses.
        return entry if re.fullmatch(rf"BOOT_IMAGE=(\([^)]*\))?{re.escape(path)}", booted) else booted

    def environment(self) -> dict[str, str]:
        """Return GRUB's environment block."""
        listed = self.vm.run("grub2-editenv list").text.splitlines()
        return {key: value for key, _, value in (line.partition("=") for line in listed)}


def of(vm: Vm) -> Loader:
    """Return the loader of a running host."""
    found = [kind for kind in (SystemdBoot, Grub) if vm.run(f"test -d {kind.entries}", check=False).code == 0]
    if len(found) != 1:
        raise UserError(f"{vm.name} has {len(found)} boot loaders", "look at its entries in /efi and /boot")
    return found[0](vm)
