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

from tests.unit.boot_tree import NEW, OLD, Tree

CARD = "pci:v000010ECd00008139sv00001AF4sd00001100bc02sc00i00"
DISK = "virtio:d00000002v00001AF4"
BUS = "pci:v00001AF4d00001001sv00001AF4sd00000002bc01sc00i00"
MOUNTS = "20 1 254:1 / / rw - ext4 /dev/vda1 rw\n21 20 0:22 / /proc rw - proc proc rw\n"


class Machine:
    """A directory tree with the devices of a host and the modules of a kernel, for which the real depmod writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for uname in (OLD, NEW):
            (root / "lib/modules" / uname / "kernel").mkdir(parents=True)
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
        # Whatever runs here is in the kernel that runs here.
        self.build_in(module, uname=OLD)
        (folder / "driver").symlink_to(self.root / "sys/bus/drivers" / module)
        return folder

    def program(self, name: str, text: str) -> None:
        path = self.root / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)

    def stacked(self, name: str, *lower: str) -> None:
        folder = self.root / "sys/class/net" / name
        folder.mkdir()
        for each in lower:
            (folder / f"lower_{each}").symlink_to(folder.parent / each)

    def volume(self, name: str, number: str, *below: str) -> Path:
        """Put a volume on others, or on the disk."""
        folder = self.root / "sys/devices/virtual/block" / name
        (folder / "slaves").mkdir(parents=True)
        disk = self.root / "sys/devices/pci0/0000:00:03.0/virtio1/block/vda"
        for each in below:
            (folder / "slaves" / each).symlink_to(disk if each == "vda" else folder.parent / each)
        self.link(f"sys/dev/block/{number}", folder)
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

    def provide(self, module: str, *aliases: str, uname: str = NEW) -> None:
        """Give the kernel a module: an object file with nothing but what modinfo shows."""
        lines = "".join(f'"alias={alias}\\0"' for alias in aliases)
        source = f'const char info[] __attribute__((section(".modinfo"))) = "license=GPL\\0" {lines};'
        target = self.root / "lib/modules" / uname / "kernel" / f"{module}.ko"
        subprocess.run(["gcc", "-x", "c", "-c", "-o", str(target), "-"], input=source, text=True, check=True)

    def build_in(self, *modules: str, uname: str = NEW) -> None:
        with (self.root / "lib/modules" / uname / "modules.builtin").open("a") as handle:
            handle.write("".join(f"kernel/drivers/{name}.ko\n" for name in modules))

    def lacking(self) -> list[str]:
        for uname in (OLD, NEW):
            subprocess.run(["depmod", "--basedir", str(self.root), uname], check=True, stderr=subprocess.DEVNULL)
        return drivers.lacking(NEW, OLD, self.root)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    found = Machine(tmp_path)
    for name in ("ext4", "xfs", "vfat"):
        found.provide(name, f"fs-{name}", uname=OLD)
    return found


def test_a_disk_needs_its_driver_its_bus_and_its_file_system(machine: Machine) -> None:
    machine.build_in("virtio_blk")
    assert machine.lacking() == ["the file system at / (fs-ext4, virtio_pci)"]


def test_drivers_may_be_built_in_or_have_another_name(machine: Machine) -> None:
    machine.build_in("virtio_blk")
    machine.provide("virtio_pci_modern", BUS[:14] + "*")
    machine.provide("ext4", "fs-ext4")
    assert machine.lacking() == []


def test_a_driver_that_the_running_kernel_does_not_list_either_is_not_missing(machine: Machine) -> None:
    """As that of PCI Express ports, which is in every kernel, and listed by none, but for an alias of another one."""
    machine.build_in("virtio_blk", "virtio_pci", "ext4")
    machine.provide("ext4", "fs-ext4")
    (machine.root / "lib/modules" / OLD / "modules.builtin").write_text("")
    (machine.root / "lib/modules" / NEW / "modules.builtin").write_text("")
    machine.provide("shpchp", BUS, uname=OLD)
    assert machine.lacking() == []


def test_a_driver_without_a_directory_of_its_own_is_known_by_its_alias(machine: Machine) -> None:
    machine.build_in("virtio_blk", "virtio_pci")
    machine.provide("ext4", "fs-ext4")
    machine.interface("ens4", "1")
    (machine.root / "sys/bus/drivers/8139cp/module").unlink()
    assert machine.lacking() == [], "no kernel lists the alias, so nothing can be said"
    machine.provide("8139cp", CARD, uname=OLD)
    assert machine.lacking() == ["the network interface ens4 (8139cp)"]
    machine.build_in("8139cp")
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


V4 = (
    "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT\n{0} 00000000 0102 3 0 0 0 00000000 0 0 0\n"
)
V6 = "{zero} 00 {zero} 00 fe80 00000400 3 0 3 {0}\n{zero} 00 {zero} 00 {zero} ffffffff 1 0 00200200 lo\n"


@pytest.mark.parametrize(("file", "routes"), [("route", V4), ("ipv6_route", V6)])
def test_of_the_interfaces_that_are_no_cards_those_of_the_default_route_count(
    machine: Machine, file: str, routes: str
) -> None:
    machine.build_in("virtio_blk", "virtio_pci", "8139cp")
    machine.provide("ext4", "fs-ext4")
    machine.interface("ens4", "1")
    machine.stacked("team0", "ens4")
    machine.stacked("team0.7", "team0")
    machine.stacked("docker0")
    kinds = {"ens4": None, "team0": "team", "team0.7": "vlan", "docker0": "bridge", "cni0": "of-tomorrow"}
    links = [{"ifname": name, **({"linkinfo": {"info_kind": kind}} if kind else {})} for name, kind in kinds.items()]
    machine.program("ip", f"echo '{json.dumps(links)}'")
    for name in ("team", "8021q", "bridge"):
        machine.provide(name, uname=OLD)
    (machine.root / "proc/net").mkdir()
    (machine.root / "proc/net" / file).write_text(routes.format("team0.7", zero=32 * "0"))
    assert machine.lacking() == ["the network interface team0 (team)", "the network interface team0.7 (8021q)"]
    machine.build_in("8021q")
    machine.provide("of-another-name", "rtnl-link-team")
    assert machine.lacking() == []
    (machine.root / "proc/net" / file).write_text(routes.format("ens4", zero=32 * "0"))
    assert machine.lacking() == []


def test_a_volume_needs_what_makes_it_of_its_disks(machine: Machine) -> None:
    """LVM with a cache, on an encrypted partition of a RAID."""
    machine.build_in("virtio_blk", "virtio_pci", "dm-mod")
    machine.provide("ext4", "fs-ext4")
    raid = machine.volume("md127", "9:127", "vda")
    (raid / "md").mkdir()
    (raid / "md/level").write_text("raid5\n")
    (raid / "md127p1").mkdir()
    (raid / "md127p1/partition").write_text("1\n")
    (raid.parent / "md127p1").symlink_to("md127/md127p1")
    for name, number, below in (("dm-0", "253:0", "md127p1"), ("dm-1", "253:1", "dm-0")):
        (machine.volume(name, number, below) / "dm").mkdir()
        (raid.parent / name / "dm/name").write_text(f"name-of-{name}\n")
    tables = 'name-of-dm-0) echo "0 99 crypt aes-xts-plain64 :64:logon:x 0 259:3 32768";;'
    tables += 'name-of-dm-1) echo "0 50 linear 253:0 2048"; echo "50 49 cache 253:2 253:3"; echo "99 1 unheard-of";;'
    machine.program("dmsetup", f'[ "$1" = table ] && case $2 in {tables} esac')
    for name in ("dm-mod", "dm-crypt", "dm-cache", "raid456"):
        machine.provide(name, uname=OLD)
    (machine.root / "proc/self/mountinfo").write_text("20 1 253:1 / / rw - ext4 /dev/mapper/vg-root rw\n")
    assert machine.lacking() == ["the file system at / (dm-cache, dm-crypt, raid456)"]
    for name in ("dm-cache", "dm-crypt"):
        machine.provide(name)
    machine.provide("raid456", "md-raid5")
    assert machine.lacking() == []


def test_a_file_system_of_a_server_counts_if_it_is_in_fstab(machine: Machine) -> None:
    machine.build_in("virtio_blk", "virtio_pci")
    machine.provide("ext4", "fs-ext4")
    machine.provide("cifs", "fs-cifs", uname=OLD)
    share = "22 20 0:50 / /srv/a\\040b rw - cifs //server/share rw\n"
    (machine.root / "proc/self/mountinfo").write_text(MOUNTS + share)
    assert machine.lacking() == []
    (machine.root / "etc").mkdir()
    (machine.root / "etc/fstab").write_text(
        "# a comment, and a line that is cut off\n\nx /y\n//server/share /srv/a\\040b cifs\n"
    )
    assert machine.lacking() == ["the file system at /srv/a\\040b (fs-cifs)"]
    machine.provide("cifs", "fs-cifs")
    assert machine.lacking() == []


@pytest.fixture
def multipath(machine: Machine) -> Machine:
    """Its root is on a partition of a disk with several paths."""
    machine.build_in("virtio_blk", "virtio_pci", "dm_mod", "ext4")
    machine.provide("dm-multipath", uname=OLD)
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
    for name, taint in (("zfs", "POE"), ("nvidia", "P"), ("falcon", "OE"), ("ext4", ""), ("raid456", "X")):
        (machine.root / "sys/module" / name).mkdir()
        (machine.root / "sys/module" / name / "taint").write_text(f"{taint}\n")
    machine.provide("falcon")
    assert machine.lacking() == ["what needs a third-party module (nvidia, zfs)"]


@pytest.mark.parametrize(("shown", "driver"), [("iscsi_tcp", "iscsi_tcp"), ("iscsi_iser", "ib_iser")])
def test_a_disk_of_iscsi_needs_the_driver_of_its_session(machine: Machine, shown: str, driver: str) -> None:
    machine.build_in("virtio_blk", "virtio_pci")
    machine.provide("ext4", "fs-ext4")
    machine.provide(driver, uname=OLD)
    disk = machine.root / "sys/devices/platform/host2/session1/target2:0:0/2:0:0:0/block/sda"
    disk.mkdir(parents=True)
    machine.link("sys/dev/block/8:0", disk)
    (machine.root / "sys/class/scsi_host/host2").mkdir(parents=True)
    (machine.root / "sys/class/scsi_host/host2/proc_name").write_text(f"{shown}\n")
    (machine.root / "proc/self/mountinfo").write_text("20 1 8:0 / /srv rw - ext4 /dev/sda rw\n")
    assert machine.lacking() == [f"the file system at /srv ({driver})"]
    machine.provide(driver)
    assert machine.lacking() == []


def test_a_disk_with_several_controllers_needs_the_drivers_of_all(machine: Machine) -> None:
    machine.build_in("virtio_blk", "virtio_pci")
    machine.provide("ext4", "fs-ext4")
    machine.provide("nvme-tcp", uname=OLD)
    subsystem = machine.root / "sys/devices/virtual/nvme-subsystem/nvme-subsys0"
    (subsystem / "nvme0n1").mkdir(parents=True)
    card = machine.device("pci0/0000:00:06.0", "nvme", "pci:v00001B36d00000010sv*") / "nvme/nvme0"
    for controller, transport in ((card, "pcie"), (machine.root / "sys/devices/virtual/nvme-fabrics/ctl/nvme1", "tcp")):
        controller.mkdir(parents=True)
        (controller / "transport").write_text(f"{transport}\n")
        (subsystem / controller.name).symlink_to(controller)
    machine.link("sys/dev/block/259:0", subsystem / "nvme0n1")
    (machine.root / "proc/self/mountinfo").write_text("20 1 259:0 / / rw - ext4 /dev/nvme0n1 rw\n")
    assert machine.lacking() == ["the file system at / (nvme, nvme-tcp)"]
    machine.build_in("nvme", "nvme-tcp")
    assert machine.lacking() == []


@pytest.mark.parametrize(
    ("transport", "shown"), [("fc", "class/fc_host/host3"), ("rdma", "class/infiniband/mlx5_0/device"), ("tcp", "x")]
)
def test_a_disk_of_nvme_over_fabrics_needs_its_transport_and_the_adapter(
    machine: Machine, transport: str, shown: str
) -> None:
    """As with nvme_core.multipath=N: the disk is below its controller."""
    machine.build_in("virtio_blk", "virtio_pci")
    machine.provide("ext4", "fs-ext4")
    machine.provide(f"nvme-{transport}", uname=OLD)
    disk = machine.root / "sys/devices/virtual/nvme-fabrics/ctl/nvme0/nvme0n1"
    disk.mkdir(parents=True)
    (disk.parent / "transport").write_text(f"{transport}\n")
    machine.link("sys/dev/block/259:0", disk)
    machine.link(f"sys/{shown}", machine.device("pci0/0000:00:08.0", "adapter", "pci:v00001234d*"))
    (machine.root / "proc/self/mountinfo").write_text("20 1 259:0 / / rw - ext4 /dev/nvme0n1 rw\n")
    adapter = "" if transport == "tcp" else "adapter, "
    assert machine.lacking() == [f"the file system at / ({adapter}nvme-{transport})"]
    machine.build_in("adapter", f"nvme-{transport}")
    assert machine.lacking() == []


def test_some_console_needs_its_driver_and_a_screen_needs_none(machine: Machine) -> None:
    machine.build_in("virtio_blk", "virtio_pci")
    machine.provide("ext4", "fs-ext4")
    port = machine.device("pci0/0000:00:07.0", "8250_exar", "pci:v000013A8d*")
    for name in ("console", "tty0", "ttyS4"):
        (machine.root / "sys/class/tty" / name).mkdir(parents=True)
    (machine.root / "sys/class/tty/ttyS4/device").symlink_to(port)
    active = machine.root / "sys/class/tty/console/active"
    active.write_text("tty0 ttyS4 hvc0\n")
    assert machine.lacking() == ["the console ttyS4 (8250_exar)"]
    hvc = machine.device("pci0/0000:00:03.0/virtio2", "virtio_console", "virtio:d00000003v*")
    machine.link("sys/bus/drivers/virtio_console/virtio2", hvc)
    machine.link("sys/bus/virtio/drivers/virtio_console", machine.root / "sys/bus/drivers/virtio_console")
    assert machine.lacking() == ["the console ttyS4 (8250_exar)", "the console hvc0 (virtio_console)"]
    machine.provide("virtio_console")
    assert machine.lacking() == [], "one console is left"
    (machine.root / "lib/modules" / NEW / "kernel/virtio_console.ko").unlink()
    active.write_text("tty0\n")
    assert machine.lacking() == []


SECURE_BOOT = {"id": "secure-boot", "what": "this host would not boot it", "hint": "mokutil --import"}


@pytest.mark.parametrize(
    ("state", "message"), [("unknown", "this host would not boot it; mokutil --import"), ("trusted", None)]
)
@pytest.mark.parametrize("knows", [True, False])
def test_secure_boot_is_looked_at_before_the_reboot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, knows: bool, state: str, message: str | None
) -> None:
    monkeypatch.setattr(booting, "ROOT", tmp_path)
    tree = Tree(tmp_path, monkeypatch)
    variable = tmp_path / snapshot.SECURE_BOOT
    variable.parent.mkdir(parents=True, exist_ok=True)
    variable.write_bytes(bytes((6, 0, 0, 0, 1)))
    # The reason is there also when the kernel that runs is not locked down. Older tools take no kernel.
    found = json.dumps({"reasons": [SECURE_BOOT], "secure_boot": {"state": state}})
    given = f'[ "$*" = "--json --kernel {NEW}" ]' if knows else '[ "$*" = --json ]'
    tree.program("thp-validate", f"#!/bin/sh\n{given} || exit 3\necho '{found}'\nexit 1\n")
    host = tree.begin(NEW)
    host.hold(600)
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
