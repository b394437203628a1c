#!/usr/bin/python3
"""Every program that the collection calls on a simulated host. Its own name decides which one it is.

Runs in the host's root directory, so paths are those of a host. STATE has the state of the host.
"""

from __future__ import annotations

import fnmatch
import json
import sys
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

STATE = Path("/opt/simulated/state.json")
UNAME = Path("/opt/simulated/uname")
EFIVARS = Path("/sys/firmware/efi/efivars")
VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
ESP = Path("/efi")
ENTRIES = ESP / "loader" / "entries"
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
CHOICE = Path("/etc/tuned/active_profile")
KERNEL = ("kernel-thp-cloud", "kernel-thp-cloud-core", "kernel-thp-cloud-modules", "kernel-thp-selftests")
CORE = "kernel-thp-cloud-core-"
Words = Sequence[str]


def state() -> dict[str, Any]:
    return dict(json.loads(STATE.read_text()))


def put(**changes: object) -> None:
    STATE.write_text(json.dumps({**state(), **changes}))


def operands(words: Words) -> list[str]:
    return [word for word in words if not word.startswith("-")]


# Boot


def variable(name: str) -> str | None:
    path = EFIVARS / f"{name}-{VENDOR}"
    return path.read_bytes()[4:].decode("utf-16-le").rstrip("\0") or None if path.exists() else None


def set_variable(name: str, value: str) -> None:
    path = EFIVARS / f"{name}-{VENDOR}"
    if value:
        path.write_bytes(b"\7\0\0\0" + f"{value}\0".encode("utf-16-le"))
    else:
        path.unlink(missing_ok=True)


def bootctl(words: Words) -> int:
    if words[0] == "--print-boot-path":
        print(ESP)
    elif words[0] == "set-default":
        set_variable("LoaderEntryDefault", words[1])
    elif words[0] == "set-oneshot":
        set_variable("LoaderEntryOneShot", words[1])
    return 0


def make_entry(uname: str) -> None:
    folder = ESP / "lab" / uname
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("linux", "initrd"):
        (folder / name).write_text("x")
    lines = (f"version {uname}", "options root=x rw", f"linux /lab/{uname}/linux", f"initrd /lab/{uname}/initrd")
    (ENTRIES / f"lab-{uname}.conf").write_text("\n".join(lines) + "\n")


def shutdown(_words: Words) -> int:
    """Reboot at once, into the boot loader's chosen entry."""
    wanted = variable("LoaderEntryOneShot") or variable("LoaderEntryDefault") or "*"
    set_variable("LoaderEntryOneShot", "")
    entry = next(path for path in sorted(ENTRIES.iterdir(), reverse=True) if fnmatch.fnmatchcase(path.name, wanted))
    set_variable("LoaderEntrySelected", entry.name)
    UNAME.write_text(entry.read_text().split()[1])
    BOOT_ID.write_text(f"{uuid.uuid4()}\n")
    put(running=state()["enabled"] == "enabled")
    return 0


# Packages


def rpm(words: Words) -> int:
    installed = state()["installed"]
    if "-qa" in words:
        print("\n".join(installed))
    elif "--whatprovides" in words:
        return 0
    elif "--quiet" in words:
        return 0 if words[-1] in installed else 1
    elif "--eval" in words:
        print("/var/lib/rpm")
    return 0


def dnf(words: Words) -> int:
    verb, *names = operands(words)
    if verb == "repoquery":
        query(words, names)
    elif verb == "install" and "--downloadonly" in words:
        for name in names:
            full, _, arch = name.rpartition(".")
            print(f" {full.rsplit('-', 2)[0]} {arch} {'-'.join(full.rsplit('-', 2)[1:])} kernel-thp 1 k")
    elif verb == "install":
        install(names)
    elif verb == "remove":
        put(installed=[name for name in state()["installed"] if name not in names])
    return 0


def query(words: Words, names: list[str]) -> None:
    release = state()["release"]
    if "--provides" in words:
        core = next(name for name in names if name.startswith(CORE))
        print(f"{CORE}uname-r = {uname_of(core)}")
    elif "--whatrequires" not in words:
        for name in (name.removesuffix(f"-{release}") for name in names if "%" not in name):
            version, arch = (release, "x86_64") if name in KERNEL else ("1.0-1", "noarch")
            print(f"{name} {version} {name}-{version}.{arch}")


def uname_of(core: str) -> str:
    return core.removeprefix(CORE).removesuffix(".x86_64") + ".x86_64+thp.cloud"


def install(names: list[str]) -> None:
    put(installed=[*state()["installed"], *names])
    for name in names:
        if name.startswith(CORE):
            make_entry(uname_of(name))


# Services


def systemctl(words: Words) -> int:
    verb = words[0]
    if verb == "--version":
        print("systemd 252 (252)")
    elif verb == "is-system-running":
        print("running")
    elif verb == "is-active":
        return 0 if state()["running"] else 3
    elif verb == "is-enabled":
        print(state()["enabled"])
    elif words[-1] == "tuned.service":
        if verb in ("enable", "disable"):
            put(enabled=f"{verb}d")
        if verb in ("start", "stop") or "--now" in words:
            put(running=verb in ("start", "enable"))
    return 0


def tuned_adm(words: Words) -> int:
    if words[0] == "profile":
        CHOICE.write_text(" ".join(words[1:]) + "\n")
        put(running=True)
    elif words[0] == "active":
        chosen = CHOICE.read_text().strip() if CHOICE.exists() and state()["running"] else ""
        print(f"Current active profile: {chosen}" if chosen else "No current active profile.")
    return 0


def thp_validate(_words: Words) -> int:
    kernel = {"uname": UNAME.read_text()}
    print(json.dumps({"verdict": "supported", "reasons": [], "selftests": None, "kernel": kernel}))
    return 0


def journalctl(_words: Words) -> int:
    print(f"Linux version {UNAME.read_text()}")
    return 0


PROGRAMS: dict[str, Callable[[Words], int]] = {
    "bootctl": bootctl,
    "dnf": dnf,
    "journalctl": journalctl,
    "rpm": rpm,
    "shutdown": shutdown,
    "systemctl": systemctl,
    "thp-validate": thp_validate,
    "tuned-adm": tuned_adm,
}

if __name__ == "__main__":
    sys.exit(PROGRAMS[Path(sys.argv[0]).name](sys.argv[1:]))
