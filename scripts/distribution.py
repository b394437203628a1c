"""Write a distribution's own kernel configurations to SOURCES/config/distribution/.

`generic.txt` is the base of the server flavour; what it and `cloud.txt` have on, our flavours have, or a list there
gives the reason. They hold facts only, the answers, so that nothing has to be fetched to make or to check a
configuration. The package that they are from is pinned in `pin.txt`: name, version, sha256.
"""

from __future__ import annotations

import argparse
import lzma
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from scripts import files, kconfig
from scripts.config import DISTRIBUTION
from scripts.console import UserError, main, say
from scripts.lock import sha256

PIN = DISTRIBUTION / "pin.txt"
INSIDE = {"generic": "config.amd64_none_amd64.xz", "cloud": "config.amd64_none_cloud-amd64.xz"}


@dataclass(frozen=True)
class Package:
    """A binary package of Debian. Without a sha256 it is taken as apt vouches for it."""

    name: str
    version: str = ""
    sha256: str = ""


def pinned() -> Package:
    words = PIN.read_text().split()
    if len(words) != 3:
        raise UserError(f"{PIN} is not 'name version sha256'", "fix it, or `git checkout` it")
    return Package(*words)


def run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise UserError(
            f"`{' '.join(command)}` failed: {done.stderr.strip()}",
            "if the archive has dropped this version, --newest pins the one that it has",
        )


def download(package: Package, folder: Path) -> tuple[Path, Package]:
    """Fetch and unpack a package; return where, and its exact version and hash."""
    if not shutil.which("apt-get"):
        raise UserError("this host has no apt-get to fetch Debian's configurations with", "use a Debian host")
    wanted = f"{package.name}={package.version}" if package.version else package.name
    run(folder, "apt-get", "--option=APT::Sandbox::User=root", "download", wanted)
    (archive,) = folder.glob("*.deb")
    found = sha256(archive)
    if package.sha256 not in ("", found):
        raise UserError(
            f"{archive.name} has the wrong hash: expected {package.sha256}, found {found}",
            "do not use it, and find out who changed the file",
        )
    run(folder, "dpkg-deb", "--extract", archive.name, "root")
    # A colon in a version is escaped in the name of the file.
    version = archive.name.split("_")[1].replace("%3a", ":")
    return folder / "root" / "usr" / "src" / package.name, Package(package.name, version, found)


def answers(archive: Path, package: Package) -> str:
    """Return the answers of one configuration, without the titles and remarks that Kconfig writes between them."""
    lines = lzma.decompress(archive.read_bytes()).decode().splitlines()
    kept = [line for line in lines if kconfig.ASSIGNMENT.match(line)]
    origin = f"# {archive.name} of {package.name} {package.version}; `python -m scripts.distribution` wrote it."
    return "".join(f"{line}\n" for line in [origin, *kept])


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--newest", action="store_true", help="pin the newest version of the package, and use that")
    newest = parser.parse_args().newest
    package = pinned()
    with tempfile.TemporaryDirectory() as scratch:
        where, found = download(Package(package.name) if newest else package, Path(scratch))
        made = {DISTRIBUTION / f"{name}.txt": answers(where / inside, found) for name, inside in INSIDE.items()}
    for path, text in made.items():
        files.replace(path, text)
        say(f"distribution: {path.name}, {len(kconfig.parse(text))} answers of {found.name} {found.version}")
    files.replace(PIN, f"{found.name} {found.version} {found.sha256}\n")


if __name__ == "__main__":
    main(command)
