"""Packages, by real dnf and rpm in a root directory of their own: what a rollout adds and takes back, and nothing else.

They are empty and signed. What is rolled out brings a dependency, needs a newer version of an installed package, and
replaces another one.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import packages
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
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
%files
"""
# Each with further lines of its spec.
TOYS = {
    ("ours", "1"): f"Requires: {DEPENDENCY}\nRequires: library >= 1:2\nObsoletes: old-name < 2",
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
BEFORE = ["application-1-1.noarch", "library-1-1.noarch", "old-name-1-1.noarch", "openssl-1-1.noarch"]
MADE = {
    "added": sorted([f"{DEPENDENCY}-1-1.noarch", "library-1:2-1.noarch", OURS]),
    "removed": ["library-1-1.noarch", "old-name-1-1.noarch"],
}
# What somebody else does in the tests stays.
AFTER_OTHERS = [*BEFORE[:-1], "openssl-2-1.noarch", "slow-1-1.noarch"]


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration of dnf with a repository of toys, all of them signed, and the key."""
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
    (folder / "repos").mkdir()
    lines = ("[toys]", "name=toys", f"baseurl=file://{place}", f"gpgkey=file://{folder}/key", "gpgcheck=1")
    (folder / "repos" / "toys.repo").write_text("\n".join(lines) + "\n")
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
        self.store = Store(folder / "record")
        (folder / "log").mkdir()
        # This machine may have plugins that bring repositories of their own.
        options = f"--noplugins --installroot={self.root} --releasever=1 --setopt=reposdir={repository}/repos"
        options += f" --setopt=cachedir={folder}/cache --setopt=logdir={folder}/log --setopt=install_weak_deps=0"
        self._program("dnf", f"exec /usr/bin/dnf {options}")
        self._program("rpm", f"exec /usr/bin/rpm --root {self.root}")

    def _program(self, name: str, line: str) -> None:
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
        module.install({"packages": [OURS], "lock_timeout": lock_timeout}, check=False)

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
    found.has("install", "library-1", "application", "old-name", "openssl-1")
    assert packages.installed() == BEFORE
    found.begin()
    yield found


def test_what_a_transaction_brings_and_replaces_is_recorded_and_taken_back(host: Host) -> None:
    host.install()
    assert host.record()["packages"] == MADE
    assert (host.record()["packages_before"], host.record()["packages_touched"]) == (None, None)
    # Somebody needs the library all the time.
    host.restore()
    assert packages.installed() == BEFORE


def test_what_somebody_else_installs_meanwhile_stays_theirs(host: Host) -> None:
    """Their transaction has begun before ours, and ends when ours has been planned and waits for them."""
    other = host.slow()
    ours = threading.Thread(target=host.install)
    ours.start()
    until(lambda: host.record()["phase"] == records.INSTALLING)
    host.end(other)
    ours.join()
    assert host.record()["packages"] == MADE
    host.restore()
    assert packages.installed() == AFTER_OTHERS


@pytest.mark.parametrize("again", [False, True])
def test_what_somebody_else_installs_after_a_power_failure_stays_theirs(host: Host, again: bool) -> None:
    """The failure came before any wanted package was installed, and somebody continues only days later."""
    touched = packages.download([OURS], 60)
    host.begin(phase=records.INSTALLING, packages_before=packages.installed(), packages_touched=touched)
    host.has("install", DEPENDENCY)
    host.end(host.slow())
    if again:
        host.install()
        assert host.record()["packages"] == MADE
    host.restore()
    assert packages.installed() == AFTER_OTHERS


def test_what_others_need_of_what_was_added_is_not_removed_with_it(host: Host) -> None:
    host.install()
    host.has("install", "later")
    with pytest.raises(Problem, match=r"later-1-1\.noarch needs what the rollout installed, and would be removed"):
        host.restore()
    assert OURS in packages.installed()


def test_a_transaction_that_cannot_be_read_is_not_begun(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "touched", lambda output, machine: [])
    with pytest.raises(Problem, match=f"does not name {OURS}"):
        host.install()
    assert host.record()["phase"] == records.BEGUN
    assert packages.installed() == BEFORE


def test_packages_are_told_by_name_and_architecture() -> None:
    assert packages.family("kernel-thp-cloud-core-6.1.187-1.x86_64") == "kernel-thp-cloud-core.x86_64"
    assert packages.family("library-1:2-1.el9.noarch") == "library.noarch"


# As dnf 5 has it.
TABLE = """\
Package                Arch   Version    Repository      Size
Installing:
 ours                  x86_64 0:1-1      toys         0.0   B
   replacing old-name  noarch 0:1-1      @System      0.0   B
Upgrading:
 library               noarch 1:2-1      toys         0.0   B
   replacing library   noarch 0:1-1      @System      0.0   B

Transaction Summary:
 Installing:         1 package
"""


def test_another_form_of_the_table_is_read_as_well() -> None:
    assert packages.touched(TABLE, "x86_64") == ["library.noarch", "old-name.noarch", "ours.x86_64"]
    skipped = f"{TABLE}Skipping packages with broken dependencies:\n openssl x86_64 2-1 toys 1 k\n"
    assert packages.touched(skipped, "x86_64") == packages.touched(TABLE, "x86_64")


@pytest.mark.parametrize(("real", "expected"), [("dnf-3", False), ("dnf5", True)])
def test_dnf_5_is_known_by_what_its_name_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real: str, expected: bool
) -> None:
    (tmp_path / real).write_text("#!/bin/sh\n")
    (tmp_path / real).chmod(0o755)
    (tmp_path / "dnf").symlink_to(real)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert packages._is_dnf5() is expected
