"""Shared by all suites with lab hosts: install packages by dnf, boot a kernel, and check that it is the right one."""

from __future__ import annotations

import functools
import re

from lab import loaders, repo
from lab.loaders import Loader
from lab.vm import BOOT_TIMEOUT, Vm
from scripts import rpms
from scripts.console import UserError
from scripts.flavours import CLOUD, Flavour

INSTALL_TIMEOUT = 600.0


class Host:
    def __init__(self, vm: Vm) -> None:
        self.vm = vm

    @functools.cached_property
    def loader(self) -> Loader:
        return loaders.of(self.vm)

    def use_repository(self, url: str) -> None:
        self.vm.write("/etc/yum.repos.d/kernel-thp.repo", repo.repo_file(url))

    def trust_repository(self) -> None:
        """Have rpm trust the key of the packages, as an administrator would: the collection does not by itself."""
        path = f"/etc/pki/rpm-gpg/{rpms.KEY_NAME}"
        self.vm.write(path, (repo.REPO / rpms.KEY_NAME).read_text())
        self.vm.run(f"rpm --import {path}")

    def install(self, *names: str) -> None:
        """Install in one transaction, and keep dnf's output."""
        log = self.vm.directory / "dnf.log"
        done = self.vm.run(f"dnf -y install {' '.join(names)}", timeout=INSTALL_TIMEOUT, check=False)
        with log.open("a") as handle:
            handle.writelines(f"{line.seconds:6.1f} {line.text}\n" for line in done.lines)
        if done.code != 0:
            last = " / ".join(line.text for line in done.lines[-3:])
            raise UserError(f"dnf install {' '.join(names)} ended with {done.code}: {last}", f"read {log}")

    def uname(self, flavour: Flavour = CLOUD) -> str:
        """Return what `uname -r` will be in the installed kernel of a flavour."""
        return self.vm.run(f"rpm -q --qf '{flavour.uname_format}' {flavour.core}").text

    def entry(self, uname: str) -> str:
        """Return the file name of a kernel's boot entry, with its tries if it has any.

        It is also the id that systemd-boot 252 takes. The id that bootctl lists lacks the tries, and the loader
        finds no entry by it (tests/kernel/test_boot_counting.py checks this).
        """
        form = re.compile(rf"lab-{re.escape(uname)}(?:\+\d+(?:-\d+)?)?\.conf")
        names = self.vm.run(f"ls {self.loader.entries}").text.split()
        found = [name for name in names if form.fullmatch(name)]
        if len(found) != 1:
            raise UserError(f"no single boot entry for {uname} among {names}", "check what kernel-install wrote")
        return found[0]

    def expect_running(self, uname: str) -> None:
        running = self.vm.run("uname -r").text
        if running != uname:
            raise UserError(f"uname -r is {running}, expected {uname}", f"read {self.vm.console}")

    def reboot_into(self, uname: str, entry: str, timeout: float = BOOT_TIMEOUT) -> str:
        """Reboot; check that this kernel runs and that the boot loader chose it; return a line that says so."""
        self.vm.reboot(timeout)
        self.expect_running(uname)
        selected = self.loader.started(entry)
        if selected != entry:
            raise UserError(f"the boot loader started {selected}, expected {entry}", f"read {self.vm.console}")
        return f"{uname}, the boot loader chose {selected}"

    def boot_once(self, uname: str, timeout: float = BOOT_TIMEOUT) -> str:
        """Make the boot loader start a kernel once, whatever its default is, and check that it did."""
        entry = self.entry(uname)
        self.loader.set_once(entry)
        return self.reboot_into(uname, entry, timeout)

    def wait_blessed(self, uname: str, timeout: int = 60) -> None:
        """Wait until systemd has blessed the entry at boot-complete.target, which removes the tries from its name.

        GRUB counts no tries, so there an entry is called that from the start.
        """
        blessed = f"{self.loader.entries}/lab-{uname}.conf"
        self.vm.run(f"timeout {timeout} sh -c 'until [ -e {blessed} ]; do sleep 1; done'", timeout=timeout + 30)
