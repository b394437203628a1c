"""The kernel source as distributions have it: by apt, by dnf. The system's package manager keeps its state."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts import lock
from scripts.console import BUILD, UserError, say
from scripts.lock import Source, numbers

APT = BUILD / "apt"
ETC = Path("/etc/apt")
ORIG = re.compile(r"^ ([0-9a-f]{64}) \d+ linux_([\d.]+)\.orig\.tar\.xz$", re.MULTILINE)
VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE)
TARBALL = re.compile(r"linux-(\d+(?:\.\d+)+)\.tar\.xz")


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Yield an empty directory, and delete it afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _own(entry: str) -> bool:
    """Return whether the distribution itself signs a source; others have no kernel, and may be slow or gone."""
    key = re.search(r"signed-by[:=]\s*(\S+)", entry, re.IGNORECASE)
    return key is None or "archive-keyring" in key[1]


def apt_entries(etc: Path) -> dict[str, str]:
    """Return the host's apt sources, each for packages and for source packages, file name -> content."""
    entries = {}
    for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*.list"))]:
        if path.exists():
            lines = [line for line in path.read_text().splitlines() if re.match(r"deb\s", line) and _own(line)]
            entries[path.name] = "".join(f"deb{line[3:]}\ndeb-src{line[3:]}\n" for line in lines)
    for path in sorted((etc / "sources.list.d").glob("*.sources")):
        text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE)
        stanzas = [stanza for stanza in re.split(r"\n\s*\n", text) if stanza.strip() and _own(stanza)]
        text = "\n\n".join(re.sub(r"(?m)^Types:.*$", "Types: deb deb-src", stanza) for stanza in stanzas)
        entries[path.name] = text.rstrip("\n") + "\n"
    return entries


class Apt:
    """apt with a separate configuration and separate lists, which both places of Debian share."""

    def __init__(self, etc: Path = ETC, home: Path = APT) -> None:
        self.etc = etc
        self.home = home
        self.updated = False

    def run(self, command: list[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        self.update()
        return self._run(command, folder or self.home)

    def _run(self, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "APT_CONFIG": str(self.home / "apt.conf"), "LC_ALL": "C"}
        return subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )

    def update(self) -> None:
        """Fetch the signed indexes into a separate directory."""
        if self.updated:
            return
        parts = self.home / "sources.list.d"
        shutil.rmtree(parts, ignore_errors=True)
        for folder in (parts, self.home / "lists" / "partial", self.home / "cache" / "archives" / "partial"):
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in apt_entries(self.etc).items():
            (parts / (name if "." in name else f"{name}.list")).write_text(text)
        # Keep how this host reaches its archives, such as a proxy; drop its hooks, because they act on the system.
        dump = subprocess.run(["apt-config", "dump", "Acquire"], check=True, capture_output=True, text=True).stdout
        own = {
            "Dir::Etc::main": "/dev/null",
            "Dir::Etc::parts": "/dev/null",
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": parts,
            "Dir::State::lists": self.home / "lists",
            "Dir::Cache": self.home / "cache",
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
        }
        (self.home / "apt.conf").write_text(dump + "".join(f'{key} "{value}";\n' for key, value in own.items()))
        done = self._run(["apt-get", "update"], self.home)
        for line in done.stderr.splitlines():
            say(f"  apt-get update: {line}")
        self.updated = True


class Debian:
    """The .orig.tar.xz of Debian's source package."""

    kind = lock.DEBIAN

    def __init__(self, apt: Apt) -> None:
        self.apt = apt

    @staticmethod
    def usable() -> bool:
        return shutil.which("apt-get") is not None

    def _index(self) -> str:
        return self.apt.run(["apt-cache", "showsrc", "--only-source", "linux"]).stdout

    def listed(self, series: str) -> list[Source]:
        """Return what the signed index has of a stable series, newest first. The files may be gone."""
        found = {
            version: Source("linux", version, digest, self.kind) for digest, version in ORIG.findall(self._index())
        }
        listed = [source for source in found.values() if source.series == series]
        return sorted(listed, key=lambda source: numbers(source.version), reverse=True)

    def fetch(self, source: Source, part: Path) -> bool:
        """Download the tarball if the archive still has it. apt checks its own hash; the caller checks ours."""
        versions = VERSION.findall(self._index())
        for version in (version for version in versions if version.rpartition("-")[0] == source.version):
            with scratch(self.apt.home / "download") as folder:
                command = ["apt-get", "source", "--download-only", "--only-source", f"linux={version}"]
                done = self.apt.run(command, folder)
                tarball = folder / f"linux_{source.version}.orig.tar.xz"
                if done.returncode == 0 and tarball.exists():
                    tarball.replace(part)
                    return True
        return False


class LinuxSource:
    """The tarball in Debian's binary package linux-source-SERIES: the tree with Debian's patches."""

    kind = lock.LINUX_SOURCE

    def __init__(self, apt: Apt) -> None:
        self.apt = apt

    @staticmethod
    def usable() -> bool:
        return shutil.which("apt-get") is not None

    def listed(self, series: str) -> list[Source]:
        """Return what the signed index has of a stable series, newest first. Only a download tells the hash."""
        name = f"linux-source-{series}"
        found = []
        for version in VERSION.findall(self.apt.run(["apt-cache", "show", "--all-versions", name]).stdout):
            upstream = version.rpartition("-")[0]
            if re.fullmatch(rf"{re.escape(series)}\.\d+", upstream):
                found.append(Source("linux", upstream, lock.UNKNOWN, self.kind, f"{name}={version}"))
        # apt lists the newest revision of a version first.
        return sorted(found, key=lambda source: numbers(source.version), reverse=True)

    def fetch(self, source: Source, part: Path) -> bool:
        """Download the package, whose hash apt checks, and take the tarball out of it."""
        name = source.package.partition("=")[0]
        with scratch(self.apt.home / "download") as folder:
            done = self.apt.run(["apt-get", "download", source.package], folder)
            package = next(folder.glob("*.deb"), None)
            if done.returncode != 0 or package is None:
                return False
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(package)], stdout=subprocess.PIPE) as content:
                command = ["tar", "-x", "-C", str(folder), f"./usr/src/{name}.tar.xz"]
                subprocess.run(command, stdin=content.stdout, check=True)
            (folder / "usr" / "src" / f"{name}.tar.xz").replace(part)
        return True


class Srpm:
    """The tarball inside the source rpm `kernel` of a dnf source repository. Tested with dnf 4 only."""

    kind = lock.SRPM
    name = "kernel"

    def __init__(self, dnf: Sequence[str] = ("dnf",), rpmkeys: Sequence[str] = ("rpmkeys",)) -> None:
        self.dnf = (*dnf, "--quiet")
        self.rpmkeys = rpmkeys

    @staticmethod
    def usable() -> bool:
        return shutil.which("dnf") is not None

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        # Source repositories are off by default, and `source` is part of all their names.
        command = [*self.dnf, "--enablerepo=*source*", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
            say(f"  dnf {arguments[0]}: {reason}")
        return done

    def listed(self, series: str) -> list[Source]:
        """Return what the source repositories have of a stable series, newest first."""
        asked = ("repoquery", "--arch=src", "--queryformat=%{version} %{name}-%{version}-%{release}\n", self.name)
        found = []
        for line in self._run(*asked).stdout.splitlines():
            version, _, package = line.partition(" ")
            if re.fullmatch(rf"{re.escape(series)}\.\d+", version):
                found.append(Source("linux", version, lock.UNKNOWN, self.kind, package))
        return sorted(found, key=lambda source: numbers(source.version), reverse=True)

    def fetch(self, source: Source, part: Path) -> bool:
        """Download the source rpm, check that a key this host trusts has signed it, and take the tarball out of it."""
        option = "--srpm" if Path(shutil.which(self.dnf[0]) or "").resolve().name == "dnf5" else "--source"
        with scratch(BUILD / "dnf") as folder:
            done = self._run("download", option, f"--destdir={folder}", source.package)
            package = next(folder.glob("*.src.rpm"), None)
            if done.returncode != 0 or package is None:
                return False
            # dnf checks signatures when it installs, not when it downloads.
            check = [*self.rpmkeys, "--define=_pkgverify_level signature", "--checksig", str(package)]
            checked = subprocess.run(check, capture_output=True, text=True, check=False)
            if checked.returncode != 0:
                raise UserError(
                    f"{package.name} has no signature by a key of this host: {checked.stdout.strip()}",
                    "import the distribution's key by `rpm --import`; if it is there, do not use the package",
                )
            listing = ["rpm", "--query", "--package", "--list", "--nosignature", str(package)]
            match = TARBALL.search(subprocess.run(listing, check=True, capture_output=True, text=True).stdout)
            if match is None or match[1] != source.version:
                say(f"  {package.name} has no linux-{source.version}.tar.xz in it")
                return False
            with subprocess.Popen(["rpm2cpio", str(package)], stdout=subprocess.PIPE) as content:
                command = ["cpio", "--extract", "--quiet", match[0]]
                subprocess.run(command, stdin=content.stdout, cwd=folder, check=True)
            (folder / match[0]).replace(part)
        return True
