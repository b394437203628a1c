"""The state of a host before a rollout: for the rollback, and for the report to compare with."""

from __future__ import annotations

import os
import platform
import re
import shutil
from collections.abc import Sequence
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
    trial,
    tuned,
)
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import now

# The trial changes these, and they stay changed until somebody sets them again.
REBOOTING = ("kernel/panic", "kernel/panic_on_oops")
SYSCTLS = (*REBOOTING, *trial.LOCKUPS, trial.BLOCKED)
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
MODULES, MODULE_LISTS = "lib/modules", ("modules.dep", "modules.builtin")
# From where kernel-install takes the command line of a new kernel: the first that exists.
COMMAND_LINES = ("etc/kernel/cmdline", "usr/lib/kernel/cmdline", "proc/cmdline")
# Variables of the firmware, and those of shim for the kernel: each 1 or 0, or for the list of shim, whether it ran.
EFI = "sys/firmware/efi"
GLOBAL, SHIM = "8be4df61-93ca-11d2-aa0d-00e098032b8c", "605dab50-e046-4300-abb6-3dd810dd8b23"
SECURE_BOOT, SETUP_MODE = f"{EFI}/efivars/SecureBoot-{GLOBAL}", f"{EFI}/efivars/SetupMode-{GLOBAL}"
MOK_LIST, MOK_STATE = "MokListRT", "MokSBStateRT"


def uname() -> str:
    return platform.release()


def boot_id(root: Path = Path("/")) -> str:
    return files.word(root / SYSCTL / "kernel/random/boot_id") or ""


def sysctls(root: Path = Path("/")) -> dict[str, str]:
    found = {name: files.word(root / SYSCTL / name) for name in SYSCTLS}
    return {name: value for name, value in found.items() if value is not None}


def set_sysctls(wanted: dict[str, str], root: Path = Path("/")) -> bool:
    """Set those that this kernel has; say whether that changed any."""
    present = sysctls(root)
    different = {name: value for name, value in wanted.items() if present.get(name, value) != value}
    for name, value in different.items():
        (root / SYSCTL / name).write_text(value)
    return bool(different)


def configured(output: str) -> dict[str, str]:
    """Return the values of REBOOTING in sysctl.d, from `systemd-analyze cat-config`: the last one wins."""
    pairs = (line.partition("=") for line in output.splitlines() if "=" in line)
    found = {name.strip().lstrip("-").replace(".", "/"): value.strip() for name, _, value in pairs}
    return {name: found[name] for name in REBOOTING if name in found}


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
    """Say whether only trusted kernels boot, as thp-validate does."""
    # `mokutil --disable-validation` makes shim take everything.
    unchecked = _mok(root, MOK_LIST) is not None and _is_set(_mok(root, MOK_STATE))
    setup = _is_set(_variable(root / SETUP_MODE))
    return _is_set(_variable(root / SECURE_BOOT)) and not setup and not unchecked


def _is_set(variable: bytes | None) -> bool:
    return (variable or b"")[:1] == b"\1"


def _mok(root: Path, name: str) -> bytes | None:
    """Return a variable of shim, from the table for the kernel or from the firmware."""
    found = _bytes(root / EFI / "mok-variables" / name)
    return _variable(root / f"{EFI}/efivars/{name}-{SHIM}") if found is None else found


def _variable(path: Path) -> bytes | None:
    """Return a variable of the firmware, without the four bytes of attributes before it."""
    found = _bytes(path)
    return None if found is None else found[4:]


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def next_options(root: Path = Path("/")) -> str:
    """Return the command line that kernel-install would give a new kernel."""
    return next((text for name in COMMAND_LINES if (text := files.word(root / name)) is not None), "")


def systemd_version() -> int:
    words = command.run(["systemctl", "--version"]).out.split()
    return int(words[1]) if len(words) > 1 and words[1].isdecimal() else 0


def watchdog(root: Path = Path("/")) -> str | None:
    """Return why systemd cannot arm a watchdog for the trial boot, or None if it can."""
    devices = sorted((root / "sys/class/watchdog").glob("watchdog*"))
    if not devices:
        return "there is no hardware watchdog"
    # systemd would take it first at the next boot, and whoever else wants it, such as a cluster's fencing, would fail.
    if files.word(devices[0] / "state") == "active" and not systemd_has_watchdog():
        return f"another program than systemd uses {devices[0].name}"
    if systemd_version() < WATCHDOG_SYSTEMD:
        return f"systemd older than {WATCHDOG_SYSTEMD} takes no watchdog from the kernel command line"
    return None


def systemd_has_watchdog() -> bool:
    shown = command.run(["systemctl", "show", "--property=RuntimeWatchdogUSec", "--value"]).out
    return shown.strip() not in ("", "0", "infinity")


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


def not_built(modules: Sequence[str], root: Path = Path("/")) -> dict[str, list[str]]:
    """Return which of these modules each installed kernel lacks, but for the one that runs: it has loaded them."""
    kernels = {path.parent for path in (root / MODULES).glob("*/vmlinuz")} - {root / MODULES / uname()}
    return {kernel.name: sorted(set(modules) - _modules(kernel)) for kernel in kernels}


def _modules(kernel: Path) -> set[str]:
    """Return the modules of a kernel, under the names that they have when they are loaded."""
    lines = [line for name in MODULE_LISTS for line in (files.text(kernel / name) or "").splitlines()]
    return {Path(line.partition(":")[0]).name.partition(".ko")[0].replace("-", "_") for line in lines}


def collect() -> dict[str, Any]:
    """Return everything that preflight needs for its decisions, including what is missing. Change nothing."""
    state, booted, modules = tuned.read(), boot(), drivers.third_party()
    return {
        "root": os.geteuid() == 0,
        "machine": platform.machine(),
        "rpm": command.run(["rpm", "--version"]).code == 0,
        "dnf": shutil.which("dnf") is not None,
        "uname": uname(),
        "boot_id": boot_id(),
        "identity": identity(),
        "boot": booted,
        "root_free_bytes": shutil.disk_usage("/").free,
        "var_free_bytes": var_free_bytes(),
        "multipath": multipath(booted["path"]),
        "kdump": kdump(),
        "third_party": modules,
        "not_built": not_built(modules),
        "tuned": state.as_dict(),
        # The package database lists tuned as installed, so none of our packages would install it.
        "tuned_gone": not state.installed and packages.provided("tuned"),
        "hugepages": hugepages.read(),
        "counters": counters.read().as_dict(),
        "no_watchdog": watchdog(),
        "secure_boot": secure_boot(),
        "fips": files.word(Path("/") / SYSCTL / "crypto/fips_enabled") == "1",
        "configured_sysctls": configured(command.run(["systemd-analyze", "cat-config", "sysctl.d"]).out),
    }
