"""Snapshots of lab hosts: what takes minutes on an emulated host is done once.

A host that starts from a snapshot is up within seconds: it continues with the saved memory, disk and variables.
"""

from __future__ import annotations

import fcntl
import hashlib
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lab import image, repo, upstream
from lab.accel import QEMU
from lab.host import Host
from lab.image import Kind
from lab.vm import RUN, Saved, Vm
from scripts.console import BUILD, step
from scripts.flavours import CLOUD

SNAPSHOTS = BUILD / "lab" / "snapshots"
DIGITS = 16
# Values that neither the kernel nor our profiles choose, so a test sees which of them returned or stayed.
PROFILE = "lab-app"
PROFILE_TEXT = """\
[main]
summary=What this host has been set to for its own application
[sysctl]
vm.dirty_ratio=37
[vm]
transparent_hugepages=madvise
"""
# Only the tested code may run dnf: its timer would do so ten minutes after each boot. Other timers, for a time of day,
# would all fire when the clock is set after a long sleep; the next boot starts them again.
SETTLE = """\
systemctl is-system-running --wait > /dev/null || true
systemctl disable --now dnf-makecache.timer || [ ! -e /lib/systemd/system/dnf-makecache.timer ]
systemctl stop '*.timer'
"""
ADMINISTER = f"systemctl enable --now tuned && tuned-adm profile {PROFILE} && tuned-adm verify"
# Set beside tuned: a rollback that only restores tuned's values loses these.
BY_HAND = "cd /sys/kernel/mm/transparent_hugepage && echo defer > defrag && echo 444 > khugepaged/max_ptes_none"


def _stock(host: Host) -> None:
    host.loader.set_default(host.entry(host.vm.run("uname -r").text))


def _administered(host: Host) -> None:
    # Where tuned 2.23 and later look for an administrator's profiles.
    moved = host.vm.run("[ -e /usr/lib/tuned/profiles/balanced ]", check=False).code == 0
    host.vm.write(f"/etc/tuned/{'profiles/' if moved else ''}{PROFILE}/tuned.conf", PROFILE_TEXT)
    host.vm.run(f"{ADMINISTER} && {BY_HAND}")


def _kernel_thp(host: Host) -> None:
    with repo.served() as url:
        host.use_repository(url)
        host.install(CLOUD.package)
    uname = host.uname()
    host.boot_once(uname)
    host.wait_blessed(uname)


def _upstream(host: Host) -> None:
    host.boot_once(upstream.install(host.vm))


@dataclass(frozen=True)
class Recipe:
    """`base` is the host it starts from, instead of a fresh one; `ours` says that our packages are in it.

    `kind` is the kind of host, otherwise the one that was asked for.
    """

    name: str
    make: Callable[[Host], None]
    cpus: int = 2
    memory_mib: int = 2048
    ours: bool = False
    base: Recipe | None = None
    kind: Kind | None = None

    @property
    def label(self) -> str:
        return f"{(self.kind or image.chosen()).name}-{self.name}"

    def digest(self) -> str:
        """Return the hash of all inputs, with qemu: another version may not understand a snapshot of this one."""
        machine = Vm(Path(), Path(), self.name, self.cpus, self.memory_mib)
        parts = [str(image.image_path(self.kind)), Path(__file__).read_text(), *machine.command_line(Path())]
        parts.append(subprocess.run([QEMU, "--version"], check=True, capture_output=True, text=True).stdout)
        if self.ours:
            parts.append(_kernel_packages())
        if self.base:
            parts.append(self.base.digest())
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:DIGITS]

    def build(self) -> Saved:
        """Return the snapshot for the present image, and make it if it is missing."""
        base = self.base.build() if self.base else None
        disk = image.build(self.kind)
        with _alone(self.label):
            found = Saved(SNAPSHOTS / f"{self.label}-{self.digest()}", self.cpus, self.memory_mib)
            # This file is written last, so the snapshot is complete.
            if found.disk.exists():
                return found
            for old in SNAPSHOTS.glob(f"{self.label}-{'?' * DIGITS}.*"):
                old.unlink()
            name = f"snapshot-{self.label}"
            fresh = Vm(disk, RUN / name, name, self.cpus, self.memory_mib)
            machine = base.machine(RUN / name, name) if base else fresh
            with step(f"lab: make the snapshot {self.label}"), machine as vm:
                vm.wait_ssh()
                vm.run(SETTLE)
                self.make(Host(vm))
                vm.run(SETTLE)
                vm.save(found)
            return found


STOCK = Recipe("stock", _stock)
KERNEL_THP = Recipe("kernel-thp", _kernel_thp, ours=True, base=STOCK)
UPSTREAM = Recipe("upstream", _upstream, base=STOCK)
# The hosts of a fleet, several of which run at a time, and one that runs the selftests.
MEMBER = Recipe("member", _administered, cpus=1, memory_mib=1024)
LARGE_MEMBER = Recipe("large-member", _administered)


def _kernel_packages() -> str:
    """Return what identifies our kernel packages; signing them again does not change it."""
    packages = [str(path) for path in sorted(repo.REPO.glob("kernel-thp*.rpm"))]
    command = ["rpm", "-qp", "--qf", "%{NVRA} %{SHA256HEADER}\\n", *packages]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextmanager
def _alone(name: str) -> Iterator[None]:
    SNAPSHOTS.mkdir(parents=True, exist_ok=True)
    with (SNAPSHOTS / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
