"""What this host needs drivers for, and whether another kernel has them: asked before that kernel is booted.

A device is followed up to its bus, because a disk is of no use without its controller.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, files

ROOT = Path("/")
# The major number of what has no device of its own. Btrfs is mounted that way, and names a device as its source.
ANONYMOUS = "0"
OUT_OF_TREE = "O"
# How multipath names its devices, and the module that these need.
MPATH, DM_MULTIPATH = "mpath-", "dm-multipath"

# The names by which kmod knows one driver. The alias of the device matches whatever the driver is called, but up to
# Linux 6.16, nothing lists the aliases of what is built in; the name of its module is listed always.
Names = tuple[str, ...]


def needs(root: Path = ROOT) -> dict[str, set[Names]]:
    """Return the modules for each file system on a disk, each network interface with a link, and third parties'."""
    found: dict[str, set[Names]] = {}
    for line in (files.text(root / "proc/self/mountinfo") or "").splitlines():
        left, _, right = line.partition(" - ")
        number, point, (kind, source) = left.split()[2], left.split()[4], right.split()[:2]
        device = _block(root, number, source)
        if device is not None:
            found[f"the file system at {point}"] = {(f"fs-{kind}",), *_disk(device)}
    for interface in sorted((root / "sys/class/net").glob("*")):
        if files.word(interface / "carrier") == "1" and (interface / "device").exists():
            found[f"the network interface {interface.name}"] = set(_chain((interface / "device").resolve()))
    # Modules that did not come with their kernel, such as those of dkms.
    for path in sorted((root / "sys/module").glob("*/taint")):
        if OUT_OF_TREE in (files.word(path) or ""):
            found.setdefault("what needs a third-party module", set()).add((path.parent.name,))
    return found


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


def _disk(device: Path) -> Iterator[Names]:
    """Return the drivers of a disk, or of all disks below a volume."""
    for each in _stack(device):
        if _is_multipath(each):
            yield (DM_MULTIPATH,)
        yield from _chain(each)


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


def _chain(device: Path) -> Iterator[Names]:
    """Return the drivers of a device, and of each device that it hangs on."""
    for folder in (device, *device.parents):
        module = folder / "driver" / "module"
        if module.exists():
            alias = files.word(folder / "modalias")
            yield (module.resolve().name, alias) if alias else (module.resolve().name,)


def lacking(uname: str, root: Path = ROOT) -> list[str]:
    """Return what a kernel has no driver for, one phrase each, with the names of the drivers."""
    found = []
    for what, drivers in needs(root).items():
        lost = sorted(names[0] for names in drivers if not any(_known(root, uname, name) for name in names))
        if lost:
            found.append(f"{what} ({', '.join(lost)})")
    return found


def _known(root: Path, uname: str, name: str) -> bool:
    """Ask kmod whether a kernel has a driver, as a module or built in."""
    where = ["--dirname", str(root), "--set-version", uname]
    return command.run(["modprobe", "--quiet", *where, "--show-depends", "--ignore-install", name]).code == 0
