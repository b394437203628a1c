"""Hosts with signed packages of one file each, installed by real dnf and rpm in a root directory of their own.

A file of tests that imports `repository` and `host` has them as fixtures.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import packages
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Record, Store
from ansible_collections.kernel_thp.fleet.plugins.modules import packages as module

from scripts import signing

# So long that dnf's table does not have it in one line.
DEPENDENCY = f"dependency-{'with-a-long-name-' * 4}1"
SPEC = """\
Name: {name}
Version: {version}
Release: 1
{more}
Summary: Toy
License: GPL-2.0-only
BuildArch: noarch
%description
Toy.
%install
mkdir -p %{{buildroot}}/etc
echo {name} > %{{buildroot}}/etc/{name}.conf
%files
%config(noreplace) /etc/{name}.conf
"""
# Each with further lines of its spec.
TOYS = {
    (
        "ours",
        "1",
    ): f"Provides: ours-core-uname-r = 1\nRequires: {DEPENDENCY}\nRequires: library >= 1:2\nObsoletes: old-name < 2",
    (DEPENDENCY, "1"): "",
    ("library", "1"): "",
    ("library", "2"): "Epoch: 1",
    ("application", "1"): "Requires: library",
    ("old-name", "1"): "",
    ("openssl", "1"): "",
    ("openssl", "2"): "",
    ("later", "1"): "Requires: ours",
    # It takes its time, in the middle of its transaction; there is no shell in the root directory.
    ("slow", "1"): '%pre -p <lua>\nposix.mkdir("/began")\nfor _ = 1, 100 do\n'
    '  if posix.stat("/may-end") then break end\n  posix.sleep(1)\nend',
}
OURS = "ours-1-1.noarch"
SOURCES = ["toys"]
BEFORE = ["application-1-1.noarch", "library-1-1.noarch", "old-name-1-1.noarch", "openssl-1-1.noarch"]
MADE = {
    "added": sorted([f"{DEPENDENCY}-1-1.noarch", "library-1:2-1.noarch", OURS]),
    "removed": ["library-1-1.noarch", "old-name-1-1.noarch"],
}
# What somebody else does in the tests stays.
AFTER_OTHERS = [*BEFORE[:-1], "openssl-2-1.noarch", "slow-1-1.noarch"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of toys, all of them signed, its file for dnf, and the key."""
    folder = tmp_path_factory.mktemp("toys")
    place = folder / "repo"
    place.mkdir()
    for (name, version), more in TOYS.items():
        spec = folder / "toy.spec"
        head, _, scriptlet = more.partition("%pre")
        content = SPEC.format(name=name, version=version, more=head.strip()).replace("\n\n", "\n")
        spec.write_text(content.replace("%files", f"%pre{scriptlet}\n%files") if scriptlet else content)
        defines = ["--define", f"_topdir {folder}/rpmbuild", "--define", f"_rpmdir {place}"]
        subprocess.run(["rpmbuild", "-bb", "--quiet", *defines, str(spec)], check=True, capture_output=True)
    with signing.keyring(folder / "gnupg") as home:
        signing.sign_packages(home, sorted(place.rglob("*.rpm")))
        signing.export(home, folder / "key")
        subprocess.run(["createrepo_c", "--quiet", str(place)], check=True)
        signing.sign_file(home, place / "repodata" / "repomd.xml")
    lines = ("[toys]", "name=toys", f"baseurl=file://{place}", f"gpgkey=file://{folder}/key", "gpgcheck=1")
    (folder / "toys.repo").write_text("\n".join(lines) + "\n")
    return folder


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


class Host:
    """A root directory with packages. Programs are found in front of this machine's own, which they call for it."""

    def __init__(self, folder: Path, repository: Path) -> None:
        self.root = folder / "root"
        self.bin = folder / "bin"
        self.cache = folder / "cache"
        self.store = Store(folder / "record")
        (folder / "log").mkdir()
        self.repositories = self.root / "etc" / "yum.repos.d"
        self.repositories.mkdir(parents=True)
        shutil.copy(repository / "toys.repo", self.repositories)
        # This machine may have plugins that bring repositories of their own.
        options = f"--noplugins --installroot={self.root} --releasever=1 --setopt=reposdir={self.repositories}"
        options += f" --setopt=cachedir={self.cache} --setopt=logdir={folder}/log --setopt=install_weak_deps=0"
        self.program("dnf", f"exec /usr/bin/dnf {options}")
        self.program("rpm", f"exec /usr/bin/rpm --root {self.root}")

    def program(self, name: str, line: str) -> None:
        self.bin.mkdir(exist_ok=True)
        (self.bin / name).write_text(f'#!/bin/sh\n{line} "$@"\n')
        (self.bin / name).chmod(0o755)

    def dnf(self, *words: str) -> subprocess.Popen[str]:
        """Have somebody else install packages."""
        command = [str(self.bin / "dnf"), "-y", *words]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def has(self, *words: str) -> None:
        with self.dnf(*words) as other:
            output = other.communicate()[0]
        assert other.returncode == 0, output

    def slow(self) -> subprocess.Popen[str]:
        """Have somebody else in the middle of a transaction, which also brings a newer package."""
        other = self.dnf("install", "slow", "openssl-2")
        until((self.root / "began").exists)
        return other

    def end(self, other: subprocess.Popen[str]) -> None:
        (self.root / "may-end").mkdir()
        output = other.communicate(timeout=60)[0]
        assert other.returncode == 0, output

    def begin(self, **more: object) -> None:
        target = {"release": "1", "uname": "1", "packages": [OURS]}
        self.store.write({**records.begin(None, "r1", target, {}), **more})

    def record(self) -> Record:
        found = self.store.read()
        assert found is not None
        return found

    def install(self, lock_timeout: int = 60) -> None:
        given = {"packages": [OURS], "repositories": SOURCES, "lock_timeout": lock_timeout}
        module.install(given, check=False)

    def restore(self) -> None:
        self.store.write(self.record(), phase=records.ROLLING_BACK)
        module.restore({"lock_timeout": 60}, check=False)


@pytest.fixture
def host(tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    found = Host(tmp_path, repository)
    monkeypatch.setenv("PATH", str(found.bin), prepend=os.pathsep)
    monkeypatch.setattr(module, "Store", lambda: found.store)
    # Not this machine's package manager.
    monkeypatch.setattr(packages, "busy", lambda: None)
    monkeypatch.setattr(packages, "POLL", 0.2)
    monkeypatch.setattr(packages, "ROOT", found.root)
    found.has("install", "library-1", "application", "old-name", "openssl-1")
    assert packages.installed() == BEFORE
    found.begin()
    yield found
