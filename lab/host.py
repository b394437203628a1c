"""What every suite does to a lab host: take packages in by dnf, and boot a kernel and prove that it is that one."""

from __future__ import annotations

import re

from lab import repo
from lab.vm import BOOT_TIMEOUT, Vm
from scripts.console import UserError

INSTALL_TIMEOUT = 600.0


class Host:
    def __init__(self, vm: Vm) -> None:
        self.vm = vm

    def use_repository(self, url: str) -> None:
        self.vm.write("/etc/yum.repos.d/kernel-thp.repo", repo.repo_file(url))

    def install(self, *names: str) -> None:
        """Install in one transaction, and keep what dnf said."""
        log = self.vm.directory / "dnf.log"
        done = self.vm.run(f"dnf -y install {' '.join(names)}", timeout=INSTALL_TIMEOUT, check=False)
        with log.open("a") as handle:
            handle.writelines(f"{line.seconds:6.1f} {line.text}\n" for line in done.lines)
        if done.code != 0:
            last = " / ".join(line.text for line in done.lines[-3:])
            raise UserError(f"dnf install {' '.join(names)} ended with {done.code}: {last}", f"read {log}")

    def entry(self, uname: str) -> str:
        """Return the file name of a kernel's boot entry, with its tries if it has any.

        It is also the id to give systemd-boot 252. What bootctl lists as id lacks the tries, and the loader does not
        find an entry by that (tests/kernel/test_boot_counting.py holds it to this).
        """
        form = re.compile(rf"lab-{re.escape(uname)}(?:\+\d+(?:-\d+)?)?\.conf")
        names = self.vm.run("ls /efi/loader/entries").text.split()
        found = [name for name in names if form.fullmatch(name)]
        if len(found) != 1:
            raise UserError(f"no single boot entry for {uname} among {names}", "check what kernel-install wrote")
        return found[0]

    def expect_running(self, uname: str) -> None:
        running = self.vm.run("uname -r").text
        if running != uname:
            raise UserError(f"uname -r is {running}, expected {uname}", f"read {self.vm.console}")

    def reboot_into(self, uname: str, entry: str, timeout: float = BOOT_TIMEOUT) -> str:
        """Reboot, prove that this kernel runs and that it was the boot loader who chose it, and say so."""
        self.vm.reboot(timeout)
        self.expect_running(uname)
        selected = self.vm.loader_variable("LoaderEntrySelected")
        if selected != entry:
            raise UserError(f"the boot loader started {selected}, expected {entry}", f"read {self.vm.console}")
        return f"{uname}, the boot loader chose {selected}"

    def boot_once(self, uname: str, timeout: float = BOOT_TIMEOUT) -> str:
        """Have the boot loader start a kernel once, whatever its default is, and prove that it did."""
        entry = self.entry(uname)
        self.vm.run(f"bootctl set-oneshot {entry}")
        return self.reboot_into(uname, entry, timeout)

    def wait_blessed(self, uname: str, timeout: int = 60) -> None:
        """systemd blesses the entry when boot-complete.target is reached: the tries go, the plus sign stays."""
        blessed = f"/efi/loader/entries/lab-{uname}.conf"
        self.vm.run(f"timeout {timeout} sh -c 'until [ -e {blessed} ]; do sleep 1; done'", timeout=timeout + 30)
