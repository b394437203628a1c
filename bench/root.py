"""Build the disk of the case `programs`: a minimal Debian with Python.

Guests mount it read-only. The scripts of the case come with the initramfs.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from bench.binaries import SCRIPTS, digest
from bench.kernels import OUT
from lab import apt, image
from scripts.console import UserError, main, run_logged, say, step

LIST = SCRIPTS / "packages.txt"
DISKS = OUT / "disks"
# A sparse file.
SIZE_MIB = 2048
# No program uses these.
LEFT_OUT = ("/usr/share/doc/*", "/usr/share/locale/*")
ADVICE = "read the log; `make bench` starts again"


def packages() -> list[str]:
    return [line for line in LIST.read_text().splitlines() if line and not line.startswith("#")]


def path() -> Path:
    """Return the path of the disk for the present inputs. Newer packages in the archive do not change it."""
    return DISKS / f"{digest([Path(__file__), LIST])}.ext4"


def bootstrap(folder: Path, log: Path) -> None:
    command = ["unshare", "--mount", "mmdebstrap", "--mode=root", "--variant=apt", "--format=directory"]
    command += [f"--include={','.join(packages())}"]
    command += [f"--aptopt={option}" for option in apt.settings()]
    command += [f"--dpkgopt=path-exclude={pattern}" for pattern in LEFT_OUT]
    command += [apt.SUITE, str(folder), *apt.sources(apt.SUITE)]
    run_logged(command, log, "mmdebstrap", ADVICE)


def build() -> Path:
    """Return the disk, and build it first if it is missing. Needs root, like the lab's image."""
    disk = path()
    if disk.exists():
        return disk
    image.check_tools()
    with image.alone(), step(f"disk of the programs, {disk.name}"):
        shutil.rmtree(DISKS, ignore_errors=True)
        DISKS.mkdir(parents=True)
        bootstrap(DISKS / "root", DISKS / "mmdebstrap.log")
        part = image.sparse(disk.with_suffix(".part"), SIZE_MIB)
        command = ["mke2fs", "-q", "-t", "ext4", "-m", "0", "-d", str(DISKS / "root"), str(part)]
        run_logged(command, DISKS / "mke2fs.log", "mke2fs", ADVICE)
        subprocess.run(["rm", "-rf", "--one-file-system", str(DISKS / "root")], check=True)
        part.replace(disk)
    return disk


def command() -> None:
    if not path().exists() and shutil.which("mmdebstrap") is None:
        raise UserError("there is no mmdebstrap", "run `make deps`")
    say(f"disk of the programs: {build()}")


if __name__ == "__main__":
    main(command)
