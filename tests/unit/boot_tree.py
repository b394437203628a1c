"""A host in a directory tree: kernel-install's own plugin writes its boot entries, and the test sets what runs.

GRUB's own program writes its environment. Only `bootctl` is replaced, because this machine's EFI variables must not
change.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import loaders, snapshot, systemd_boot
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.booting import Host
from ansible_collections.kernel_thp.fleet.plugins.module_utils.grub import Grub
from ansible_collections.kernel_thp.fleet.plugins.module_utils.loader import Loader
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Store
from ansible_collections.kernel_thp.fleet.plugins.module_utils.systemd_boot import SystemdBoot

OLD, NEW = "6.1.0-56-amd64", "6.1.187-1.x86_64+thp.cloud"
OPTIONS = "root=PARTLABEL=lab-root rw panic=10"
PLUGIN = Path("/usr/lib/kernel/install.d/90-loaderentry.install")
BOOTCTL = """\
#!{python}
import sys
from pathlib import Path
verb, value = sys.argv[1:]
path = Path("{folder}", {{"set-default": "{default}", "set-oneshot": "{once}"}}[verb] + "-{vendor}")
path.parent.mkdir(parents=True, exist_ok=True)
if value:
    path.write_bytes(bytes([7, 0, 0, 0]) + (value + chr(0)).encode("utf-16-le"))
else:
    path.unlink(missing_ok=True)
"""


class Tree:
    """It runs the old kernel in boot b0."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch, kind: type[Loader] = SystemdBoot) -> None:
        self.root, self.boot = root, root / "boot"
        self.uname, self.boot_id, self.command_line = OLD, "b0", OPTIONS
        self.store = Store(root / "record")
        self.add(OLD)
        self.loader = self._grub() if kind is Grub else SystemdBoot(root, self.boot)
        monkeypatch.setattr(loaders, "find", lambda: self.loader)
        monkeypatch.setattr(snapshot, "uname", lambda: self.uname)
        monkeypatch.setattr(snapshot, "boot_id", lambda: self.boot_id)
        self.program(
            "bootctl",
            BOOTCTL.format(
                python=sys.executable,
                folder=root / systemd_boot.VARIABLES,
                default=systemd_boot.DEFAULT,
                once=systemd_boot.ONCE,
                vendor=systemd_boot.VENDOR,
            ),
        )
        monkeypatch.setenv("PATH", str(root / "bin"), prepend=os.pathsep)

    def _grub(self) -> Grub:
        editenv = shutil.which("grub2-editenv") or shutil.which("grub-editenv")
        assert editenv, "run `make deps`: GRUB's own program is not here"
        place = self.boot / "grub2"
        place.mkdir()
        subprocess.run([editenv, str(place / "grubenv"), "create"], check=True)
        return Grub(self.root, editenv, place)

    def program(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def begin(self, target: str) -> Host:
        """Begin a rollout from the kernel that runs now."""
        before = {"uname": self.uname, "boot": {"settings": self.loader.settings()}, "sysctls": {}}
        known = {"schema": records.SCHEMA, "phase": records.BEGUN, "armed_in": None}
        self.store.write({**known, "target": {"uname": target}, "before": before})
        return Host(self.store)

    def phase(self, name: str) -> None:
        record = self.store.read()
        assert record is not None
        self.store.write(record, phase=name)

    def add(self, uname: str) -> None:
        """Install a kernel, on a host without a command line for new ones."""
        assert PLUGIN.exists(), "run `make deps`: kernel-install is not here"
        running, image, place = self.root / "cmdline", self.root / "vmlinuz", self.boot / "lab" / uname
        running.write_text(f"initrd=\\lab\\initrd {self.command_line}\n")
        image.write_text("x")
        place.mkdir(parents=True, exist_ok=True)
        # The paths of a real host, in this tree.
        script = PLUGIN.read_text()
        for path in ("/proc/cmdline", "/etc/kernel/", "/usr/lib/kernel/"):
            assert path in script
        script = script.replace("/proc/cmdline", str(running)).replace("/etc/kernel/", f"{self.root}/none/")
        script = script.replace("/usr/lib/kernel/", f"{self.root}/none/")
        given = {
            "KERNEL_INSTALL_LAYOUT": "bls",
            "KERNEL_INSTALL_MACHINE_ID": "0123456789abcdef0123456789abcdef",
            "KERNEL_INSTALL_ENTRY_TOKEN": "lab",
            "KERNEL_INSTALL_BOOT_ROOT": str(self.boot),
            "KERNEL_INSTALL_STAGING_AREA": str(self.root / "none"),
            "KERNEL_INSTALL_VERBOSE": "0",
        }
        words = ["sh", "-c", script, PLUGIN.name, "add", uname, str(place), str(image)]
        subprocess.run(words, env={**os.environ, **given}, check=True)
        # /boot would be a file system of its own, from where paths count.
        entry = self.boot / "loader" / "entries" / f"lab-{uname}.conf"
        entry.write_text(entry.read_text().replace(f"{self.boot}/", "/"))

    def default(self) -> str | None:
        return systemd_boot.variable(self.root, systemd_boot.DEFAULT)

    def options(self, uname: str) -> str:
        """Return the command line that a kernel's entry gives it."""
        return self.loader.entry(uname).options
