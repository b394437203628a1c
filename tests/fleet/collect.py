"""Print the state of a host as JSON: `collect.py`, run on the host. A script of its own, because it is sent there.

It reads the files and runs the programs that an administrator would, and uses nothing of the collection, whose results
it has to check. A rollback has to restore `settings`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

# Where kernels and entries are, with GRUB and with systemd-boot.
GRUB = Path("/boot/grub2/grubenv")
BOOT = Path("/boot" if GRUB.exists() else "/efi")
# Changed by the boot loader at each boot.
SEED = "loader/random-seed"
# The entry that was started has them in its name until its boot is marked as good.
TRIES = re.compile(r"\+\d+(?:-\d+)?(?=\.conf$)")
EFIVARS = Path("/sys/firmware/efi/efivars")
VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
THP = Path("/sys/kernel/mm/transparent_hugepage")
SYSCTLS = ("kernel/panic", "kernel/panic_on_oops", "kernel/hung_task_panic", "vm/dirty_ratio")
FOLDER = Path("/var/lib/kernel-thp")
# Of dnf 4 and of dnf 5.
DNF_LOGS = (Path("/var/log/dnf.log"), Path("/var/log/dnf5.log"))
# A key that became trusted stays, as documented.
KEY = "gpg-pubkey-"


def text(path: Path) -> str | None:
    return path.read_text(errors="replace") if path.exists() else None


def output(*words: str) -> str:
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return f"{words[0]} is not installed"
    return (done.stdout + done.stderr).strip()


def variable(name: str) -> str | None:
    """Return an EFI variable of the boot loader: four bytes of attributes, then UTF-16 with a zero at its end."""
    path = EFIVARS / f"{name}-{VENDOR}"
    return path.read_bytes()[4:].decode("utf-16-le").rstrip("\0") or None if path.exists() else None


def tree(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir())


def choices() -> dict[str, str | None]:
    """Return what the boot loader starts by default and once, by file names of entries, and what it started."""
    if not GRUB.exists():
        return {
            "default": variable("LoaderEntryDefault"),
            "once": variable("LoaderEntryOneShot"),
            "selected": TRIES.sub("", variable("LoaderEntrySelected") or ""),
        }
    lines = [line.partition("=") for line in output("grub2-editenv", str(GRUB), "list").splitlines()]
    found = {key: f"{value}.conf" for key, _, value in lines if value}
    # GRUB says nothing of the entry, but leaves the kernel's path, some versions with the device in parentheses.
    image = re.search(r"BOOT_IMAGE=(?:\([^)]*\))?(\S+)", text(Path("/proc/cmdline")) or "")
    return {
        "default": found.get("saved_entry"),
        "once": found.get("next_entry"),
        "selected": image[1] if image else None,
    }


def boot() -> dict[str, Any]:
    files = [path for path in BOOT.rglob("*") if path.is_file() and str(path.relative_to(BOOT)) != SEED]
    return {
        **choices(),
        "entries": {path.name: path.read_text() for path in (BOOT / "loader" / "entries").glob("*")},
        "files": {str(path.relative_to(BOOT)): path.stat().st_size for path in sorted(files)},
        "plugins": tree(Path("/etc/kernel/install.d")),
    }


def chosen(content: str) -> str:
    """Return the word in brackets, if a file lists its choices."""
    return content.partition("[")[2].partition("]")[0] or content.strip()


def huge_pages() -> dict[str, str]:
    found = {}
    for path in sorted(THP.rglob("*")):
        if path.is_file() and path.stat().st_mode & 0o200:
            found[str(path.relative_to(THP))] = chosen(path.read_text())
    return found


def tuned() -> dict[str, Any]:
    return {
        "active": output("tuned-adm", "active").partition("Current active profile: ")[2].splitlines()[:1],
        "running": output("systemctl", "is-active", "tuned"),
        "enabled": output("systemctl", "is-enabled", "tuned"),
        "chosen": text(Path("/etc/tuned/active_profile")),
        "mode": text(Path("/etc/tuned/profile_mode")),
        "files": tree(Path("/etc/tuned")),
    }


def main() -> None:
    packages = [name for name in output("rpm", "-qa").splitlines() if not name.startswith(KEY)]
    record = text(FOLDER / "rollout.json")
    found = {
        "boot_id": (text(Path("/proc/sys/kernel/random/boot_id")) or "").strip(),
        "settings": {
            "uname": os.uname().release,
            "boot": boot(),
            "huge_pages": huge_pages(),
            "tuned": tuned(),
            "sysctls": {name: (text(Path("/proc/sys") / name) or "").strip() for name in SYSCTLS},
            "packages": sorted(packages),
            "modules": sorted(path.name for path in Path("/lib/modules").iterdir()),
            "units": tree(Path("/etc/systemd/system")),
        },
        "record": None if record is None else json.loads(record),
        "held": (FOLDER / "holder.json").exists(),
        "dnf_log_bytes": sum(path.stat().st_size for path in DNF_LOGS if path.exists()),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
