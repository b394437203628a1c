"""What this host needs drivers for, and whether another kernel has them: asked before that kernel is booted.

A device is followed up to its bus, because a disk is of no use without its controller.

A kernel does not list all that is built in, so a name is asked for only if the running kernel lists it as well.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, files

ROOT = Path("/")
# The major number of what has no device of its own. Btrfs is mounted that way, and names a device as its source.
ANONYMOUS = "0"
# What the kernel notes of a module that did not come with it: out of tree, and proprietary. A live patch is for one
# kernel, and no other needs it.
TAINTS, LIVE_PATCH = frozenset("OP"), "K"
# How multipath names its devices, and the module that these need.
MPATH, DM_MULTIPATH = "mpath-", "dm-multipath"
# Disks below these are reached by a network, or on several paths: mostly, no driver in sysfs is above them.
ISCSI_SESSION = re.compile(r"/(host\d+)/session\d+/")
SUBSYSTEM, FABRICS = re.compile(r".*/nvme-subsystem/[^/]+"), re.compile(r".*/nvme-fabrics/ctl/nvme\d+")
# Adapters of networks that have no interface in sys/class/net, by the transport of NVMe.
ADAPTERS = {"fc": "sys/class/fc_host/*", "rdma": "sys/class/infiniband/*/device"}
PCIE, RDMA_HOST, RDMA = "pcie", "iscsi_iser", "ib_iser"
# hvc0 and the like are of no device in sysfs; on virtual machines, this driver has them.
HVC, VIRTIO_CONSOLES = "hvc", "sys/bus/virtio/drivers/virtio_console"

# The names by which kmod knows one driver. The alias of the device matches whatever the driver is called, but up to
# Linux 6.16, nothing lists the aliases of what is built in; the name of its module is listed always.
Names = tuple[str, ...]
# Of kinds of interfaces that are on others, and of levels of RAID: what the module is called if not like the kind.
LINKS = {"bond": "bonding", "vlan": "8021q", "bridge": "bridge", "team": "team"}
LINKS.update({name: name for name in ("vxlan", "wireguard", "macvlan", "ipvlan", "openvswitch")})
LEVELS = {"linear": "linear", "raid0": "raid0", "raid1": "raid1", "raid10": "raid10"}
LEVELS.update(dict.fromkeys(("raid4", "raid5", "raid6"), "raid456"))
# Of targets of device-mapper, the same.
TARGETS = dict.fromkeys(("linear", "striped", "error"), "dm-mod")
TARGETS.update({"thin": "dm-thin-pool", "snapshot-origin": "dm-snapshot", "snapshot-merge": "dm-snapshot"})
TARGET = re.compile(r"^\d+ \d+ (\S+)", re.MULTILINE)
# File systems of servers, which are on no disk of this host.
SERVERS = ("nfs", "nfs4", "cifs", "smb3", "ceph")
THIRD_PARTY = "what needs a third-party module"
CONSOLE = "the console "


def needs(running: str, root: Path = ROOT) -> dict[str, set[Names]]:
    """Return the modules for file systems on a disk or in fstab, for network and consoles, and of third parties."""
    found: dict[str, set[Names]] = {}
    listed = _fstab(root)
    for line in (files.text(root / "proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        number, point, (kind, source) = left.split()[2], left.split()[4], right.split()[:2]
        device = _block(root, number, source)
        if device is not None:
            found[f"the file system at {point}"] = {(f"fs-{kind}",), *_disk(root, running, device)}
        elif kind in SERVERS and point in listed:
            found[f"the file system at {point}"] = {(f"fs-{kind}",)}
    for interface in sorted((root / "sys/class/net").glob("*")):
        card = interface / "device"
        if files.word(interface / "carrier") == "1" and card.exists():
            found[f"the network interface {interface.name}"] = set(_chain(root, running, card.resolve()))
    for name, kind in _links(root).items():
        found.setdefault(f"the network interface {name}", set()).add((LINKS[kind], f"rtnl-link-{kind}"))
    for console in (files.word(root / "sys/class/tty/console/active") or "").split():
        if devices := _console(root, console):
            found[f"{CONSOLE}{console}"] = {names for each in devices for names in _chain(root, running, each)}
    if modules := third_party(root):
        found[THIRD_PARTY] = {(name,) for name in modules}
    return found


def third_party(root: Path = ROOT) -> list[str]:
    """Return the loaded modules that did not come with their kernel, such as those of dkms."""
    taints = {path.parent.name: files.word(path) or "" for path in (root / "sys/module").glob("*/taint")}
    return sorted(name for name, taint in taints.items() if TAINTS.intersection(taint) and LIVE_PATCH not in taint)


def _fstab(root: Path) -> list[str]:
    """Return where file systems are to be mounted at boot; and `/`, which is in any case."""
    lines = [line.split() for line in (files.text(root / "etc/fstab") or "").splitlines()]
    return ["/", *(line[1] for line in lines if len(line) > 2 and not line[0].startswith("#"))]


def _links(root: Path) -> dict[str, str]:
    """Return the interfaces that a default route leads through and that are no cards, and of which kind they are."""
    routes = [line.split() for line in (files.text(root / "proc/net/route") or "").splitlines()]
    names = {line[0] for line in routes if len(line) > 7 and line[1] == line[7] == "00000000"}
    routes = [line.split() for line in (files.text(root / "proc/net/ipv6_route") or "").splitlines()]
    names |= {line[9] for line in routes if len(line) > 9 and line[0].strip("0") == "" and line[1] == "00"}
    through = {each for name in names for each in _lower(root / "sys/class/net" / name)}
    if not through:
        return {}
    # Not all have a DEVTYPE in sysfs.
    shown = json.loads(command.run(["ip", "-json", "-details", "link", "show"]).out or "[]")
    kinds = {link.get("ifname"): link.get("linkinfo", {}).get("info_kind") for link in shown}
    return {name: kinds[name] for name in sorted(through) if kinds.get(name) in LINKS}


def _lower(interface: Path) -> Iterator[str]:
    """Yield an interface, and all those that it is on."""
    yield interface.name
    for lower in sorted(interface.glob("lower_*")):
        yield from _lower(interface.parent / lower.name.partition("_")[2])


def _console(root: Path, name: str) -> list[Path]:
    """Return the devices of a console; a screen has none, as it goes on with what the firmware has set up."""
    if name.startswith(HVC):
        return [path.resolve() for path in sorted((root / VIRTIO_CONSOLES).glob("virtio*"))]
    device = root / "sys/class/tty" / name / "device"
    return [device.resolve()] if device.exists() else []


def _block(root: Path, number: str, source: str) -> Path | None:
    """Return the directory of a block device below /sys, or None for a file system that is on none."""
    if number.partition(":")[0] == ANONYMOUS:
        if not source.startswith("/dev/"):
            return None
        try:
            device = (root / source.lstrip("/")).stat().st_rdev
        except OSError:
            return None
        number = f"{os.major(device)}:{os.minor(device)}"
    link = root / "sys/dev/block" / number
    return link.resolve() if link.exists() else None


def _stack(device: Path) -> Iterator[Path]:
    """Yield a block device, and all those below it if it is a volume."""
    whole = device.parent if (device / "partition").exists() else device
    for slave in sorted((whole / "slaves").glob("*")):
        yield from _stack(slave.resolve())
    yield device


def _disk(root: Path, running: str, device: Path) -> Iterator[Names]:
    """Return the drivers of a disk, or of all disks below a volume."""
    for each in _stack(device):
        if _is_multipath(each):
            yield (DM_MULTIPATH,)
        yield from _volume(each)
        yield from _chain(root, running, each)
        yield from _remote(root, running, each)


def _volume(device: Path) -> Iterator[Names]:
    """Return what makes a volume of the disks below it."""
    whole = device.parent if (device / "partition").exists() else device
    level = files.word(whole / "md" / "level")
    if level in LEVELS:
        yield (LEVELS[level], f"md-{level}")
    name = files.word(device / "dm" / "name")
    if name:
        for target in set(TARGET.findall(command.run(["dmsetup", "table", name]).out)):
            yield (TARGETS.get(target, f"dm-{target}"),)


def _remote(root: Path, running: str, device: Path) -> Iterator[Names]:
    """Return the drivers of a disk that has none above it: one of iSCSI, or of NVMe with several controllers."""
    if session := ISCSI_SESSION.search(str(device)):
        driver = files.word(root / "sys/class/scsi_host" / session[1] / "proc_name")
        if driver:
            yield (RDMA if driver == RDMA_HOST else driver,)
    if found := FABRICS.match(str(device)):
        yield from _controller(root, running, Path(found[0]))
    if found := SUBSYSTEM.match(str(device)):
        for controller in sorted(Path(found[0]).glob("nvme*")):
            yield from _controller(root, running, controller.resolve())


def _controller(root: Path, running: str, controller: Path) -> Iterator[Names]:
    """Return the drivers of a controller of NVMe, and of all adapters of its network."""
    transport = files.word(controller / "transport") or PCIE
    if transport != PCIE:
        yield (f"nvme-{transport}",)
    for adapter in sorted(root.glob(ADAPTERS[transport])) if transport in ADAPTERS else ():
        yield from _chain(root, running, adapter.resolve())
    yield from _chain(root, running, controller)


def _is_multipath(device: Path) -> bool:
    return (files.word(device / "dm" / "uuid") or "").startswith(MPATH)


def on_multipath(place: str, root: Path = ROOT) -> bool:
    """Say whether the file system mounted there is on a disk with several paths."""
    for line in (files.text(root / "proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[4] == place:
            device = _block(root, left.split()[2], right.split()[1])
            if device is not None and any(map(_is_multipath, _stack(device))):
                return True
    return False


def _chain(root: Path, running: str, device: Path) -> Iterator[Names]:
    """Return the drivers of a device, and of each device that it hangs on."""
    for folder in (device, *device.parents):
        if not (folder / "driver").exists():
            continue
        module, alias = folder / "driver" / "module", files.word(folder / "modalias")
        # What is built in may have no directory of its own.
        modules = [module.resolve().name] if module.exists() else _modules(root, running, alias) if alias else []
        if modules:
            yield (*modules, alias) if alias else tuple(modules)


def lacking(uname: str, running: str, root: Path = ROOT) -> list[str]:
    """Return what a kernel has no driver for, one phrase each, with the names of the drivers.

    Consoles, such as that of an adapter that is plugged in now and then, only if it has none for any of them.
    """
    found, lasting = {}, []
    for what, drivers in needs(running, root).items():
        gone = (names for names in drivers if not _known(root, uname, names))
        # By its own name: an alias may be listed for another driver, as that of PCI Express ports is for hotplug.
        lost = sorted(names[0] for names in gone if what == THIRD_PARTY or _known(root, running, names[:1]))
        if lost:
            found[what] = f"{what} ({', '.join(lost)})"
        else:
            lasting.append(what)
    enough = any(what.startswith(CONSOLE) for what in lasting)
    return [phrase for what, phrase in found.items() if not (enough and what.startswith(CONSOLE))]


def _known(root: Path, uname: str, names: Names) -> bool:
    """Ask kmod whether a kernel has a driver by one of these names, as a module or built in."""
    return any(_modprobe(root, uname, "--show-depends", "--ignore-install", name).code == 0 for name in names)


def _modules(root: Path, uname: str, alias: str) -> list[str]:
    """Ask kmod for the modules that have an alias, which may be built in."""
    return _modprobe(root, uname, "--resolve-alias", alias).out.split()


def _modprobe(root: Path, uname: str, *words: str) -> command.Done:
    return command.run(["modprobe", "--quiet", "--dirname", str(root), "--set-version", uname, *words])
