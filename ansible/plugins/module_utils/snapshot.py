"""The state of a host before a rollout: for the rollback, and for the report to compare with."""

from __future__ import annotations

import os
import platform
import re
import shutil
from pathlib import Path
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.module_utils import (
    command,
    counters,
    drivers,
    files,
    hugepages,
    kernel_log,
    loaders,
    packages,
    services,
    tuned,
)
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import now

# The trial changes these, and they stay changed until somebody sets them again.
SYSCTLS = ("kernel/panic", "kernel/panic_on_oops")
# The first systemd that reads the watchdog's timeout from the kernel command line.
WATCHDOG_SYSTEMD = 251
# In microseconds: how long firmware and boot loader took before the kernel started, and all the rest after that.
FINISHED = "FinishTimestampMonotonic"
BOOT_TIMES = ("FirmwareTimestampMonotonic", FINISHED)
SYSCTL = "proc/sys"
# Where a package manager, dracut and the journal write.
VAR = ("var/cache", "var/lib", "var/log", "var/tmp")
MACHINE_ID, PRODUCT = "etc/machine-id", "sys/class/dmi/id/product_uuid"
MULTIPATH = "multipath"
KDUMP, CRASHKERNEL = "kdump.service", "crashkernel="
# What Secure Boot is to imply, as kernels of distributions have it by a patch of theirs.
LOCKDOWN = "lockdown="
# From where kernel-install takes the command line of a new kernel: the first that exists.
COMMAND_LINES = ("etc/kernel/cmdline", "usr/lib/kernel/cmdline", "proc/cmdline")
# Four bytes of attributes, then 1 if the firmware enforces signatures.
SECURE_BOOT = "sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


def uname() -> str:
    return platform.release()


def boot_id(root: Path = Path("/")) -> str:
    return files.word(root / SYSCTL / "kernel/random/boot_id") or ""


def sysctls(root: Path = Path("/")) -> dict[str, str]:
    found = {name: files.word(root / SYSCTL / name) for name in SYSCTLS}
    return {name: value for name, value in found.items() if value is not None}


def set_sysctls(wanted: dict[str, str], root: Path = Path("/")) -> bool:
    different = {name: value for name, value in wanted.items() if sysctls(root).get(name) != value}
    for name, value in different.items():
        (root / SYSCTL / name).write_text(value)
    return bool(different)


def configured(output: str) -> dict[str, str]:
    """Return the values of SYSCTLS in sysctl.d, from `systemd-analyze cat-config`: the last one wins."""
    pairs = (line.partition("=") for line in output.splitlines() if "=" in line)
    found = {name.strip().lstrip("-").replace(".", "/"): value.strip() for name, _, value in pairs}
    return {name: found[name] for name in SYSCTLS if name in found}


def boot() -> dict[str, Any]:
    """Return how the host boots; problems are a list of sentences, not an error."""
    try:
        loader = loaders.find()
        entry = loader.entry(uname())
    except Problem as problem:
        return {"loader": None, "entry": None, "settings": {}, "problems": [str(problem)], "free_bytes": 0, "path": ""}
    return {
        "loader": loader.name,
        "entry": entry.name,
        "settings": loader.settings(),
        "problems": loader.problems(),
        "free_bytes": shutil.disk_usage(loader.boot).free,
        "path": str(loader.boot),
    }


def before() -> dict[str, Any]:
    """Return the state to record once, before anything is changed."""
    found = boot()
    if found["loader"] is None:
        raise Problem(found["problems"][0])
    return {
        "time": now(),
        "uname": uname(),
        "boot_id": boot_id(),
        "boot_seconds": boot_seconds(),
        "boot": {name: found[name] for name in ("loader", "entry", "settings")},
        "tuned": tuned.read().as_dict(),
        "hugepages": hugepages.read(),
        "sysctls": sysctls(),
        "counters": counters.read().as_dict(),
        "complaints": kernel_log.known(),
        "tainted": kernel_log.tainted(),
        "services": services.lasting(),
    }


def boot_seconds() -> float:
    """Return how long this boot took, from power-on to the last service, as `systemd-analyze time` adds it up.

    Without the time of the firmware where that does not tell, and 0 while the boot goes on.
    """
    done = command.run(["systemctl", "show", *(f"--property={name}" for name in BOOT_TIMES)])
    times = dict(re.findall(r"^(\w+)=(\d+)$", done.out, re.MULTILINE))
    return sum(int(times.get(name, 0)) for name in BOOT_TIMES) / 1e6 if times.get(FINISHED, "0") != "0" else 0.0


def secure_boot(root: Path = Path("/")) -> bool:
    try:
        return (root / SECURE_BOOT).read_bytes()[4:] == b"\1"
    except OSError:
        return False


def next_options(root: Path = Path("/")) -> str:
    """Return the command line that kernel-install would give a new kernel."""
    return next((text for name in COMMAND_LINES if (text := files.word(root / name)) is not None), "")


def systemd_version() -> int:
    words = command.run(["systemctl", "--version"]).out.split()
    return int(words[1]) if len(words) > 1 and words[1].isdecimal() else 0


def watchdog(root: Path = Path("/")) -> str | None:
    """Return why systemd cannot arm a watchdog for the trial boot, or None if it can."""
    if not list((root / "sys/class/watchdog").glob("watchdog*")):
        return "there is no hardware watchdog"
    if systemd_version() < WATCHDOG_SYSTEMD:
        return f"systemd older than {WATCHDOG_SYSTEMD} takes no watchdog from the kernel command line"
    return None


def machine_id(root: Path = Path("/")) -> str:
    return files.word(root / MACHINE_ID) or ""


def identity(root: Path = Path("/")) -> str:
    """Return what tells machines apart, also after a reboot, and clones if their hypervisor does; empty if unknown."""
    return " ".join(filter(None, (machine_id(root), files.word(root / PRODUCT))))


def var_free_bytes(root: Path = Path("/")) -> dict[str, int]:
    """Return the free space of each file system below /var that is not that of `/`, by its first path."""
    found = {root.stat().st_dev: root}
    for path in (root / name for name in VAR):
        if path.is_dir():
            found.setdefault(path.stat().st_dev, path)
    return {str(path): shutil.disk_usage(path).free for path in found.values() if path != root}


def multipath(boot: str, root: Path = Path("/")) -> str | None:
    """Return why a new kernel could wait forever for a multipath device, or None if there is none or dracut has it.

    dracut makes the new initramfs as it has made the present one.
    """
    places = [place for place in ("/", boot) if place and drivers.on_multipath(place, root)]
    if not places:
        return None
    done = command.run(["lsinitrd", "--mod", "--kver", uname()])
    if MULTIPATH in done.out.split():
        return None
    seen = "has no multipath" if done.code == 0 else f"cannot be read ({done.last})"
    return f"{' and '.join(places)} is on multipath, and the initramfs of {uname()} {seen}"


def kdump(root: Path = Path("/")) -> str | None:
    """Return what an operator should know about kdump, or None if it is not enabled."""
    if command.run(["systemctl", "is-enabled", "--quiet", KDUMP]).code != 0:
        return None
    if CRASHKERNEL not in next_options(root):
        return "kdump is enabled, and the new kernel gets no crashkernel= (/etc/kernel/cmdline): it will not dump"
    return "kdump is enabled: it makes an initramfs of its own for the new kernel at its first start (kdumpctl status)"


def collect() -> dict[str, Any]:
    """Return everything that preflight needs for its decisions, including what is missing. Change nothing."""
    state, booted = tuned.read(), boot()
    return {
        "root": os.geteuid() == 0,
        "machine": platform.machine(),
        "rpm": command.run(["rpm", "--version"]).code == 0,
        "dnf": shutil.which("dnf") is not None,
        "uname": uname(),
        "boot_id": boot_id(),
        "machine_id": machine_id(),
        "identity": identity(),
        "boot": booted,
        "root_free_bytes": shutil.disk_usage("/").free,
        "var_free_bytes": var_free_bytes(),
        "multipath": multipath(booted["path"]),
        "kdump": kdump(),
        "tuned": state.as_dict(),
        # The package database lists tuned as installed, so none of our packages would install it.
        "tuned_gone": not state.installed and packages.provided("tuned"),
        "hugepages": hugepages.read(),
        "counters": counters.read().as_dict(),
        "no_watchdog": watchdog(),
        "secure_boot": secure_boot(),
        "next_options": next_options(),
        "fips": files.word(Path("/") / SYSCTL / "crypto/fips_enabled") == "1",
        "configured_sysctls": configured(command.run(["systemd-analyze", "cat-config", "sysctl.d"]).out),
    }
