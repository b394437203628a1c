"""Find the boot loader that started the running kernel, by what it left behind."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils.grub import Grub
from ansible_collections.kernel_thp.fleet.plugins.module_utils.loader import Loader
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.systemd_boot import SystemdBoot

KINDS = (SystemdBoot, Grub)


def find(root: Path = Path("/")) -> Loader:
    for kind in KINDS:
        loader = kind.find(root)
        if loader is not None:
            return loader
    raise Problem(
        "neither systemd-boot nor GRUB with BLS entries starts this host",
        "a kernel cannot be tried once here: roll out by hand",
    )
