"""The kernel source of this host's distribution. The system's package manager keeps its state."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.console import BUILD, UserError, say
from scripts.lock import Source, sha256

APT = BUILD / "apt"
ETC = Path("/etc/apt")
ORIG = re.compile(r"^ ([0-9a-f]{64}) \d+ (linux_([\d.]+)\.orig\.tar\.xz)$", re.MULTILINE)
VERSION = re.compile(r"^Version: (\S+)$", re.MULTILINE)
TARBALL = re.compile(r"linux-(\d+(?:\.\d+)+)\.tar\.xz")


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


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


def source_entries(etc: Path) -> dict[str, str]:
    """Return the host's apt sources as sources of source packages, file name -> content."""
    entries = {}
    for path in [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*.list"))]:
        if path.exists():
            lines = [line for line in path.read_text().splitlines() if re.match(r"deb\s", line) and _own(line)]
            entries[path.name] = "".join(f"deb-src{line[3:]}\n" for line in lines)
    for path in sorted((etc / "sources.list.d").glob("*.sources")):
        text = re.sub(r"^#.*\n", "", path.read_text(), flags=re.MULTILINE)
        stanzas = [stanza for stanza in re.split(r"\n\s*\n", text) if stanza.strip() and _own(stanza)]
        text = "\n\n".join(re.sub(r"(?m)^Types:.*$", "Types: deb-src", stanza) for stanza in stanzas)
        entries[path.name] = text.rstrip("\n") + "\n"
    return entries


class Debian:
    """The source package of apt, read with a separate configuration."""

    kind = "debian"

    def __init__(self, etc: Path = ETC, home: Path = APT) -> None:
        self.etc = etc
        self.home = home
        self.updated = False

    @staticmethod
    def usable() -> bool:
        return shutil.which("apt-get") is not None

    def _run(self, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "APT_CONFIG": str(self.home / "apt.conf"), "LC_ALL": "C"}
        return subprocess.run(
            command, cwd=folder, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )

    def _update(self) -> None:
        """Fetch the signed index of source packages into a separate directory."""
        if self.updated:
            return
        parts = self.home / "sources.list.d"
        shutil.rmtree(parts, ignore_errors=True)
        for folder in (parts, self.home / "lists" / "partial", self.home / "cache" / "archives" / "partial"):
            folder.mkdir(parents=True, exist_ok=True)
        for name, text in source_entries(self.etc).items():
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

    def versions(self, series: str) -> list[Source]:
        """Return what the signed index lists of a stable series, newest first. Their files may be gone."""
        self._update()
        index = self._run(["apt-cache", "showsrc", "--only-source", "linux"], self.home).stdout
        found = {match[2]: Source("linux", match[2], match[0], self.kind) for match in ORIG.findall(index)}
        listed = [source for source in found.values() if source.series == series]
        return sorted(listed, key=lambda source: numbers(source.version), reverse=True)

    def fetch(self, source: Source) -> bool:
        """Download the tarball if the archive still has it. apt checks its own hash; the caller checks ours."""
        self._update()
        index = self._run(["apt-cache", "showsrc", "--only-source", "linux"], self.home).stdout
        packages = [version for version in VERSION.findall(index) if version.rpartition("-")[0] == source.version]
        for package in packages:
            with scratch(self.home / "download") as folder:
                done = self._run(["apt-get", "source", "--download-only", "--only-source", f"linux={package}"], folder)
                tarball = folder / f"linux_{source.version}.orig.tar.xz"
                if done.returncode == 0 and tarball.exists():
                    tarball.replace(source.path.with_suffix(".part"))
                    return True
        return False


class Rpm:
    """The source rpm of dnf. Written from dnf's documentation; untested on an RPM distribution."""

    kind = "srpm"

    @staticmethod
    def usable() -> bool:
        return shutil.which("dnf") is not None and not Debian.usable()

    def _download(self, folder: Path, part: Path | None) -> str | None:
        """Download the newest source rpm; return its tarball's version, and extract the tarball to `part` if given."""
        command = ["dnf", "download", "--source", "--destdir", str(folder), "kernel"]
        if subprocess.run(command, check=False, stdin=subprocess.DEVNULL).returncode != 0:
            return None
        for package in folder.glob("*.src.rpm"):
            names = subprocess.run(["rpm", "-qpl", str(package)], check=True, capture_output=True, text=True).stdout
            match = TARBALL.search(names)
            if match and part:
                places = [f"--define=_{name}dir {folder}" for name in ("source", "spec")]
                subprocess.run(["rpm", "-i", *places, str(package)], check=True)
                (folder / match[0]).replace(part)
            if match:
                return match[1]
        return None

    def versions(self, series: str) -> list[Source]:
        with scratch(BUILD / "dnf") as folder:
            part = folder / "tarball"
            version = self._download(folder, part)
            if version is None or not version.startswith(f"{series}."):
                return []
            return [Source("linux", version, sha256(part), self.kind)]

    def fetch(self, source: Source) -> bool:
        with scratch(BUILD / "dnf") as folder:
            return self._download(folder, source.path.with_suffix(".part")) == source.version


def host() -> Debian | Rpm:
    """Return the distribution of this host."""
    if Debian.usable():
        return Debian()
    if Rpm.usable():
        return Rpm()
    raise UserError("this host has neither apt nor dnf to take the kernel source from", "use a Debian or Fedora host")
