"""A kernel with the upstream shrinker for a lab host: the distribution's 6.12, in its build for virtual machines.

It is not in the image, whose only kernel has to be the stock one; a test that needs it installs it.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from lab import apt
from lab.vm import Vm
from scripts.console import BUILD, UserError

META = "linux-image-6.12-cloud-amd64"
IMAGE = re.compile(r"^Depends:.*?(linux-image-(6\.12\.\S+-cloud-amd64))\b", re.MULTILINE)
CACHE = BUILD / "lab" / "debs"
GUEST = "/var/tmp/upstream"
INSTALL_TIMEOUT = 600.0


def newest() -> tuple[str, str]:
    """Return the name of the package and of its kernel, from apt on this machine."""
    done = subprocess.run(["apt-cache", "show", "--no-all-versions", META], capture_output=True, text=True, check=False)
    match = IMAGE.search(done.stdout)
    if match is None:
        raise UserError(f"apt on this machine does not know {META}", "run `apt-get update`, then this again")
    return match[1], match[2]


def options(suite: str) -> list[str]:
    """Return apt's options for another suite of this machine's archive, in a folder of its own."""
    folder = BUILD / "lab" / f"apt-{suite}"
    for name in ("lists/partial", "archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "list").write_text("".join(f"{line}\n" for line in apt.sources(suite)))
    made = [
        f"Dir::Etc::sourcelist={folder}/list",
        "Dir::Etc::sourceparts=/dev/null",
        f"Dir::State::lists={folder}/lists",
    ]
    return [word for option in (*made, f"Dir::Cache::archives={folder}/archives") for word in ("-o", option)]


def package(name: str, suite: str = "") -> Path:
    """Return the package file, and download it if it is missing; apt checks its signature chain."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with CACHE.with_suffix(".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        found = sorted(CACHE.glob(f"{name}_*.deb"))
        if not found:
            by_hand = f"put {name}_*.deb, which Debian's archive has, into {CACHE}"
            if not shutil.which("apt-get"):
                raise UserError(f"there is no apt-get here to download {name}", by_hand)
            other = options(suite) if suite else []
            if suite:
                subprocess.run(["apt-get", *other, "-q", "update"], capture_output=True, check=False)
            command = ["apt-get", *other, "download", name]
            done = subprocess.run(
                command, cwd=CACHE, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
            )
            found = sorted(CACHE.glob(f"{name}_*.deb"))
            if done.returncode != 0 or not found:
                last = done.stderr.strip().splitlines()[-1:]
                hint = f"run `apt-get update`, then this again; or {by_hand}"
                raise UserError(f"{' '.join(command)} failed: {last}", hint)
    return found[-1]


def install(vm: Vm) -> str:
    """Install it beside the host's other kernels, by kernel-install as an RPM would; return its `uname -r`."""
    name, uname = newest()
    with tempfile.NamedTemporaryFile(dir=BUILD, suffix=".tar") as archive:
        with tarfile.open(archive.name, "w") as content:
            content.add(package(name), "upstream.deb")
        vm.unpack(Path(archive.name), GUEST)
    vm.run(
        f"cd {GUEST} && dpkg-deb -x upstream.deb . && mv lib/modules/{uname} /lib/modules/ && mv boot/*-{uname} /boot/"
        f" && kernel-install add {uname} /boot/vmlinuz-{uname} && rm -r {GUEST}",
        timeout=INSTALL_TIMEOUT,
    )
    return uname
