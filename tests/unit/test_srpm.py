"""A tarball inside a source rpm comes by the real dnf, and only if a key of the host has signed the package."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from scripts import distro, lock, sources
from scripts.console import UserError
from scripts.distro import Srpm
from scripts.lock import Source

TOOLS = ("dnf", "createrepo_c", "rpmbuild", "rpmsign", "rpm2cpio", "cpio")
MISSING = [tool for tool in TOOLS if not shutil.which(tool)]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")

CONTENT = {"6.1.9": b"nine", "6.1.10": b"ten", "6.12.1": b"another series"}
OWNER = "vendor@example.org"
SPEC = """\
Name: kernel
Version: {version}
Release: 1
Summary: Kernel
License: GPL-2.0-only
BuildArch: noarch
Source0: linux-{version}.tar.xz
%description
The kernel of a distribution.
"""


def run(*command: str | Path, home: Path | None = None) -> None:
    env = {**os.environ, **({"GNUPGHOME": str(home)} if home else {})}
    subprocess.run(list(map(str, command)), check=True, capture_output=True, env=env, stdin=subprocess.DEVNULL)


def build(work: Path, version: str, content: bytes) -> Path:
    """Build a source rpm."""
    (work / "SOURCES").mkdir(parents=True, exist_ok=True)
    (work / "SOURCES" / f"linux-{version}.tar.xz").write_bytes(content)
    (work / "kernel.spec").write_text(SPEC.format(version=version))
    run("rpmbuild", "-bs", f"--define=_topdir {work}", work / "kernel.spec")
    return work / "SRPMS" / f"kernel-{version}-1.src.rpm"


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The keyring of a vendor."""
    home = tmp_path_factory.mktemp("gpg")
    home.chmod(0o700)
    generate = ("--quick-generate-key", OWNER, "rsa3072", "sign", "never")
    run("gpg", "--batch", "--pinentry-mode", "loopback", "--passphrase", "", *generate, home=home)
    run("gpg", "--batch", "--armor", "--output", home / "key.asc", "--export", OWNER, home=home)
    yield home
    run("gpgconf", "--kill", "all", home=home)


def configured(folder: Path, packages: Sequence[Path]) -> tuple[str, ...]:
    """Make a source repository, off as those of Fedora are, and return a dnf that knows no other."""
    for part in ("repo", "etc"):
        (folder / part).mkdir()
    for package in packages:
        shutil.copy(package, folder / "repo")
    run("createrepo_c", folder / "repo")
    (folder / "etc" / "local.repo").write_text(
        f"[local-source]\nname=local\nbaseurl=file://{folder}/repo\nenabled=0\ngpgcheck=1\n"
    )
    (folder / "dnf.conf").write_text(f"[main]\nreposdir={folder}/etc\ncachedir={folder}/cache\n")
    return ("dnf", f"--config={folder}/dnf.conf", "--releasever=1")


@pytest.fixture(scope="module")
def unsigned(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    work = tmp_path_factory.mktemp("rpmbuild")
    return [build(work, version, content) for version, content in CONTENT.items()]


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory, unsigned: list[Path], key: Path) -> list[Path]:
    folder = tmp_path_factory.mktemp("signed")
    packages = [Path(shutil.copy(package, folder)) for package in unsigned]
    names = (f"--define=_gpg_name {OWNER}", f"--define=_gpg_path {key}", f"--define=__gpg {shutil.which('gpg')}")
    run("rpmsign", *names, "--addsign", *packages)
    return packages


@pytest.fixture
def rpmkeys(tmp_path: Path) -> tuple[str, ...]:
    """rpmkeys with a database of its own, which trusts nobody yet."""
    return ("rpmkeys", f"--dbpath={tmp_path}/rpmdb")


@pytest.fixture(autouse=True)
def locations(own_lock: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distro, "BUILD", tmp_path)


def line(version: str) -> Source:
    return Source("linux", version, hashlib.sha256(CONTENT[version]).hexdigest(), lock.SRPM, f"kernel-{version}-1")


def fetch(place: Srpm, source: Source) -> Source:
    lock.LOCK.write_text(source.line())
    return sources.fetch([place])


def test_pinned_version_is_taken_out_of_its_package(
    tmp_path: Path, signed: list[Path], key: Path, rpmkeys: tuple[str, ...]
) -> None:
    run(*rpmkeys, "--import", key / "key.asc")
    place = Srpm(configured(tmp_path, signed), rpmkeys)
    listed = place.listed("6.1")
    assert [(source.version, source.package) for source in listed] == [
        ("6.1.10", "kernel-6.1.10-1"),
        ("6.1.9", "kernel-6.1.9-1"),
    ]
    # Not the newest one: every package of the repository is within reach.
    assert fetch(place, line("6.1.9")).path.read_bytes() == b"nine"


def test_key_the_host_does_not_know_is_refused(tmp_path: Path, signed: list[Path], rpmkeys: tuple[str, ...]) -> None:
    with pytest.raises(UserError, match="no signature by a key of this host"):
        fetch(Srpm(configured(tmp_path, signed), rpmkeys), line("6.1.9"))
    assert list(lock.SOURCES.iterdir()) == []


def test_package_without_a_signature_is_refused(
    tmp_path: Path, unsigned: list[Path], key: Path, rpmkeys: tuple[str, ...]
) -> None:
    run(*rpmkeys, "--import", key / "key.asc")
    with pytest.raises(UserError, match="no signature by a key of this host"):
        fetch(Srpm(configured(tmp_path, unsigned), rpmkeys), line("6.1.9"))
    assert list(lock.SOURCES.iterdir()) == []


def test_host_without_source_repositories_has_nothing(tmp_path: Path, rpmkeys: tuple[str, ...]) -> None:
    place = Srpm(configured(tmp_path, []), rpmkeys)
    (tmp_path / "etc" / "local.repo").unlink()
    assert place.listed("6.1") == []
    assert not place.fetch(line("6.1.9"), lock.SOURCES / "part")
