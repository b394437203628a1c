"""A lab host as an administrator left it, to start many from: booted before, tuned in use with a profile of its own.

Made once from each image, and kept. A host that starts from it costs a boot and nothing else.
"""

from __future__ import annotations

import fcntl
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.console import BUILD, step
from tests.lab import image
from tests.lab.vm import RUN, Vm

PREPARED = BUILD / "lab" / "prepared"
# Nothing the kernel or our profiles would choose, so that whatever returns or stays can be told apart.
PROFILE = "lab-app"
PROFILE_TEXT = """\
[main]
summary=What this host has been set to for its own application
[sysctl]
vm.dirty_ratio=37
[vm]
transparent_hugepages=madvise
"""
# dnf is to be called by nobody but who is tested: a timer would do it ten minutes after each boot.
SETUP = f"""
set -e
systemctl is-system-running --wait > /dev/null || true
systemctl disable --now dnf-makecache.timer || [ ! -e /lib/systemd/system/dnf-makecache.timer ]
systemctl enable --now tuned
tuned-adm profile {PROFILE}
tuned-adm verify
"""
# Each host makes an id of its own at its next start, as with the image itself.
FORGET = ": > /etc/machine-id"


@dataclass(frozen=True)
class Prepared:
    """What a host starts from: see Vm."""

    disk: Path
    variables: Path


def digest() -> str:
    """Return the hash of what makes it: the image, wherever that is, and this file."""
    parts = (str(image.image_path()), Path(__file__).read_text())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


@contextmanager
def _alone() -> Iterator[None]:
    PREPARED.mkdir(parents=True, exist_ok=True)
    with (PREPARED / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def build() -> Prepared:
    """Return what is there for the present image, made if it is not."""
    disk = image.build()
    with _alone():
        found = Prepared(PREPARED / f"{digest()}.qcow2", PREPARED / f"{digest()}.fd")
        if found.disk.exists():
            return found
        for old in PREPARED.glob("*.*"):
            old.unlink()
        with step("lab: prepare a host to start others from"), Vm(disk, RUN / "prepare", "prepare") as vm:
            vm.wait_ssh()
            vm.write(f"/etc/tuned/{PROFILE}/tuned.conf", PROFILE_TEXT)
            vm.run(SETUP)
            vm.run(FORGET)
            vm.shut_down()
            vm.variables.replace(found.variables)
            # Last: it says that the whole is there.
            vm.overlay.replace(found.disk)
        return found
