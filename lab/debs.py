"""Debian packages that no image has: download one, or install some on a running host with all that they need.

apt on this machine downloads them and checks their signatures; a lab host has no network but this machine.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab import apt
from lab.vm import Vm
from scripts.console import BUILD, UserError

CACHE = BUILD / "lab" / "debs"
ARCHIVES = CACHE / "archives"
GUEST = "/var/tmp/debs"
INSTALL_TIMEOUT = 1800.0


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
    with _alone():
        found = sorted(CACHE.glob(f"{name}_*.deb"))
        if not found:
            by_hand = f"put {name}_*.deb, which Debian's archive has, into {CACHE}"
            if not shutil.which("apt-get"):
                raise UserError(f"there is no apt-get here to download {name}", by_hand)
            other = options(suite) if suite else []
            if suite:
                subprocess.run(["apt-get", *other, "-q", "update"], capture_output=True, check=False)
            _apt(*other, "download", name, or_else=f"; or {by_hand}")
            found = sorted(CACHE.glob(f"{name}_*.deb"))
            if not found:
                raise UserError(f"apt-get download {name} left no file in {CACHE}", by_hand)
    return found[-1]


def install(vm: Vm, *names: str) -> None:
    """Install packages of this machine's suite on a host of the same suite, without what they only recommend."""
    with _alone(), tempfile.TemporaryDirectory(dir=CACHE) as folder:
        status, archive = Path(folder) / "status", Path(folder) / "debs.tar"
        status.write_text(vm.run("cat /var/lib/dpkg/status").text + "\n")
        (ARCHIVES / "partial").mkdir(parents=True, exist_ok=True)
        # apt's own cache is about the packages that this machine has.
        state = (f"Dir::State::status={status}", "Dir::Cache::pkgcache=", "Debug::NoLocking=true")
        command = [word for option in state for word in ("-o", option)]
        command += ["--no-install-recommends", "-y", "install", *names]
        # It names only what it would have to download.
        listing = _apt(*command, "--print-uris", "-o", f"Dir::Cache::archives={folder}")
        wanted = re.findall(r"^'\S+' (\S+\.deb) ", listing, re.MULTILINE)
        _apt(*command, "--download-only", "-o", f"Dir::Cache::archives={ARCHIVES}")
        with tarfile.open(archive, "w") as content:
            for name in wanted:
                content.add(ARCHIVES / name, name)
        vm.unpack(archive, GUEST)
    # The host's own apt, as dpkg alone does not order what has to be configured before another is unpacked.
    quick = "-y --no-install-recommends -o DPkg::Options::=--force-unsafe-io"
    script = f"DEBIAN_FRONTEND=noninteractive apt-get {quick} install {GUEST}/*.deb && rm -r {GUEST}"
    vm.run(script, timeout=INSTALL_TIMEOUT)


def _apt(*words: str, or_else: str = "") -> str:
    command = ["apt-get", *words]
    done = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:]
        raise UserError(f"{' '.join(command)} failed: {last}", f"run `apt-get update`, then this again{or_else}")
    return done.stdout


@contextmanager
def _alone() -> Iterator[None]:
    CACHE.mkdir(parents=True, exist_ok=True)
    with CACHE.with_suffix(".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
