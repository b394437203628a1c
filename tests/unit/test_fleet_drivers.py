"""A kernel without the driver of a disk or of a network interface is refused by name, before it is booted."""

from __future__ import annotations

import json
import platform
import subprocess
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import booting, drivers, snapshot
from ansible_collections.kernel_thp.fleet.plugins.module_utils.booting import Trial
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

from tests.unit.boot_tree import NEW, Tree

CARD = "pci:v000010ECd00008139sv00001AF4sd00001100bc02sc00i00"
DISK = "virtio:d00000002v00001AF4"
BUS = "pci:v00001AF4d00001001sv00001AF4sd00000002bc01sc00i00"
MOUNTS = "20 1 254:1 / / rw - ext4 /dev/vda1 rw\n21 20 0:22 / /proc rw - proc proc rw\n"


class Machine:
    """A directory tree with the devices of a host and the modules of a kernel, for which the real depmod writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules = root / "lib/modules" / NEW
        (self.modules / "kernel").mkdir(parents=True)
        (root / "proc/self").mkdir(parents=True)
        (root / "proc/self/mountinfo").write_text(MOUNTS)
        (root / "sys/class/net").mkdir(parents=True)
        bus = self.device("pci0/0000:00:03.0", "virtio_pci", BUS)
        disk = self.device("pci0/0000:00:03.0/virtio1", "virtio_blk", DISK)
        partition = disk / "block/vda/vda1"
        partition.mkdir(parents=True)
        (partition / "partition").write_text("1\n")
        self.link("sys/dev/block/254:1", partition)
        assert bus in partition.parents

    def device(self, place: str, module: str, alias: str) -> Path:
        folder = self.root / "sys/devices" / place
        folder.mkdir(parents=True)
        (folder / "modalias").write_text(f"{alias}\n")
        (self.root / "sys/module" / module).mkdir(parents=True)
        self.link(f"sys/bus/drivers/{module}/module", self.root / "sys/module" / module)
        (folder / "driver").symlink_to(self.root / "sys/bus/drivers" / module)
        return folder

    def link(self, name: str, target: Path) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).symlink_to(target)

    def interface(self, name: str, carrier: str) -> None:
        card = self.device(f"pci0/0000:00:04.0/{name}", "8139cp", CARD)
        folder = self.root / "sys/class/net" / name
        folder.mkdir()
        (folder / "carrier").write_text(f"{carrier}\n")
        (folder / "device").symlink_to(card)

    def provide(self, module: str, *aliases: str) -> None:
        """Give the kernel a module: an object file with nothing but what modinfo shows."""
        lines = "".join(f'"alias={alias}\\0"' for alias in aliases)
        source = f'const char info[] __attribute__((section(".modinfo"))) = "license=GPL\\0" {lines};'
        target = self.modules / "kernel" / f"{module}.ko"
        subprocess.run(["gcc", "-x", "c", "-c", "-o", str(target), "-"], input=source, text=True, check=True)

    def build_in(self, *modules: str) -> None:
        (self.modules / "modules.builtin").write_text("".join(f"kernel/drivers/{name}.ko\n" for name in modules))

    def lacking(self) -> list[str]:
        subprocess.run(["depmod", "--basedir", str(self.root), NEW], check=True, stderr=subprocess.DEVNULL)
        return drivers.lacking(NEW, self.root)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_disk_needs_its_driver_its_bus_and_its_file_system(machine: Machine) -> None:
    machine.build_in("virtio_blk")
    assert machine.lacking() == ["the file system at / (fs-ext4, virtio_pci)"]


def test_drivers_may_be_built_in_or_have_another_name(machine: Machine) -> None:
    machine.build_in("virtio_blk")
    machine.provide("virtio_pci_modern", BUS[:14] + "*")
    machine.provide("ext4", "fs-ext4")
    assert machine.lacking() == []


def test_a_network_interface_counts_if_it_has_a_link(machine: Machine) -> None:
    machine.build_in("virtio_blk", "virtio_pci")
    machine.provide("ext4", "fs-ext4")
    machine.interface("ens4", "1")
    assert machine.lacking() == ["the network interface ens4 (8139cp)"]
    (machine.root / "sys/class/net/ens4/carrier").write_text("0\n")
    assert machine.lacking() == []


def test_a_volume_needs_what_all_of_its_disks_need(machine: Machine) -> None:
    machine.build_in("virtio_blk", "virtio_pci", "dm_mod")
    machine.provide("xfs", "fs-xfs")
    mirror = machine.root / "sys/devices/virtual/block/dm-0"
    (mirror / "slaves").mkdir(parents=True)
    machine.link("sys/dev/block/253:0", mirror)
    second = machine.device("pci0/0000:00:05.0", "megaraid_sas", "pci:v00001000d0000005B*") / "block/sda"
    second.mkdir(parents=True)
    (mirror / "slaves/sda").symlink_to(second)
    (machine.root / "proc/self/mountinfo").write_text("20 1 253:0 / / rw - xfs /dev/mapper/root rw\n")
    assert machine.lacking() == ["the file system at / (megaraid_sas)"]


@pytest.fixture
def multipath(machine: Machine) -> Machine:
    """Its root is on a partition of a disk with several paths."""
    machine.build_in("virtio_blk", "virtio_pci", "dm_mod", "ext4")
    for name, uuid, below in (("dm-1", "part1-mpath-36", "dm-0"), ("dm-0", "mpath-36", "vda")):
        folder = machine.root / "sys/devices/virtual/block" / name
        (folder / "slaves").mkdir(parents=True)
        (folder / "dm").mkdir()
        (folder / "dm/uuid").write_text(f"{uuid}\n")
        (folder / "slaves" / below).symlink_to(machine.root / "sys/devices/virtual/block" / below)
    disk = machine.root / "sys/devices/pci0/0000:00:03.0/virtio1/block/vda"
    (machine.root / "sys/devices/virtual/block/vda").symlink_to(disk)
    machine.link("sys/dev/block/253:1", machine.root / "sys/devices/virtual/block/dm-1")
    mounts = "20 1 253:1 / / rw - ext4 /dev/mapper/mpatha1 rw\n21 20 254:1 / /efi rw - vfat /dev/vda1 rw\n"
    (machine.root / "proc/self/mountinfo").write_text(mounts)
    return machine


def test_a_disk_with_several_paths_needs_the_driver_of_these(multipath: Machine) -> None:
    multipath.provide("fat", "fs-vfat")
    multipath.provide("ext4", "fs-ext4")
    assert multipath.lacking() == ["the file system at / (dm-multipath)"]
    multipath.provide("dm-multipath")
    assert multipath.lacking() == []


@pytest.mark.parametrize(
    ("modules", "code", "message"),
    [
        ("bash base multipath systemd", 0, None),
        ("bash base systemd", 0, f"/ is on multipath, and the initramfs of {platform.release()} has no multipath"),
        ("no such file", 1, f"/ is on multipath, and the initramfs of {platform.release()} cannot be read (no such"),
    ],
)
def test_the_initramfs_has_to_find_all_paths(
    multipath: Machine, monkeypatch: pytest.MonkeyPatch, modules: str, code: int, message: str | None
) -> None:
    program = multipath.root / "bin/lsinitrd"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho {modules}\nexit {code}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")
    found = snapshot.multipath("/efi", multipath.root)
    assert found is None if message is None else message in str(found)
    assert snapshot.multipath("", Path("/nonexistent")) is None


def test_modules_of_third_parties_are_named_unless_the_kernel_has_them(machine: Machine) -> None:
    machine.build_in("virtio_blk", "virtio_pci")
    machine.provide("ext4", "fs-ext4")
    for name, taint in (("zfs", "POE"), ("falcon", "OE"), ("ext4", ""), ("raid456", "X")):
        (machine.root / "sys/module" / name).mkdir()
        (machine.root / "sys/module" / name / "taint").write_text(f"{taint}\n")
    machine.provide("falcon")
    assert machine.lacking() == ["what needs a third-party module (zfs)"]


SECURE_BOOT = {"id": "secure-boot", "what": "this host would not boot it", "hint": "mokutil --import"}


@pytest.mark.parametrize(
    ("reasons", "options", "message"),
    [
        ([SECURE_BOOT], "lockdown=integrity", "this host would not boot it; mokutil --import"),
        ([], "", "does not lock the kernel down; add lockdown=integrity"),
        ([{**SECURE_BOOT, "id": "kernel-flavour"}], "lockdown=integrity", None),
    ],
)
def test_secure_boot_is_looked_at_before_the_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reasons: list[dict[str, str]], options: str, message: str | None
) -> None:
    monkeypatch.setattr(booting, "ROOT", tmp_path)
    tree = Tree(tmp_path, monkeypatch)
    variable = tmp_path / snapshot.SECURE_BOOT
    variable.parent.mkdir(parents=True, exist_ok=True)
    variable.write_bytes(bytes((6, 0, 0, 0, 1)))
    tree.program("thp-validate", f"#!/bin/sh\necho '{json.dumps({'reasons': reasons})}'\nexit 1\n")
    host = tree.begin(NEW)
    host.hold(600)
    tree.command_line += f" {options}"
    tree.add(NEW)
    tree.phase("installed")
    trial = Trial(NEW, 30, 60, [], 600, check_drivers=False)
    if message is None:
        assert host.try_once(trial)
        return
    with pytest.raises(Problem, match=message):
        host.try_once(trial)
    assert tree.loader.once() is None


def test_a_kernel_without_a_driver_is_not_booted(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.lacking()
    monkeypatch.setattr(booting, "ROOT", tmp_path)
    tree = Tree(tmp_path, monkeypatch)
    host = tree.begin(NEW)
    host.hold(600)
    tree.add(NEW)
    tree.phase("installed")
    with pytest.raises(
        Problem, match=r"no driver for the file system at / \(fs-ext4, virtio_blk, virtio_pci\).*server"
    ):
        host.try_once(Trial(NEW, 30, 60, [], 600, check_drivers=True))
    assert tree.loader.once() is None
