"""Sources come from where the lock says, with the hash it says; what is not available is one line of error."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from scripts import distro, lock, sources
from scripts.console import UserError
from scripts.lock import Source
from scripts.sources import Place

CONTENT = {"6.1.9": b"nine", "6.1.10": b"ten", "6.1.11": b"eleven", "6.12.1": b"another series"}
SHA = {version: hashlib.sha256(content).hexdigest() for version, content in CONTENT.items()}
PATCHED = {"6.1.9-1": b"nine patched", "6.1.10-1": b"ten patched", "6.1.10-2": b"ten patched twice"}


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def paragraph(version: str) -> str:
    """Return an index entry as an apt archive has it."""
    orig, dsc = f"linux_{version}.orig.tar.xz", f"linux_{version}-1.dsc"
    size, text = len(CONTENT[version]), dsc.encode()
    return (
        f"Package: linux\nFormat: 3.0 (quilt)\nBinary: linux-doc\nArchitecture: all\nVersion: {version}-1\n"
        "Maintainer: nobody <nobody@example.org>\nDirectory: pool\nChecksums-Sha256:\n"
        f" {SHA[version]} {size} {orig}\n {hashlib.sha256(text).hexdigest()} {len(text)} {dsc}\n"
        f"Files:\n {hashlib.md5(CONTENT[version]).hexdigest()} {size} {orig}\n"
        f" {hashlib.md5(text).hexdigest()} {len(text)} {dsc}\n"
    )


def deb(root: Path, version: str, content: bytes) -> str:
    """Build linux-source-6.1 with a tarball in it, and return its index entry."""
    tree = root / f"tree-{version}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "usr" / "src").mkdir(parents=True)
    (tree / "usr" / "src" / "linux-source-6.1.tar.xz").write_bytes(content)
    control = (
        f"Package: linux-source-6.1\nVersion: {version}\nArchitecture: all\n"
        "Maintainer: nobody <nobody@example.org>\nDescription: source\n"
    )
    (tree / "DEBIAN" / "control").write_text(control)
    package = root / "pool" / f"linux-source-6.1_{version}_all.deb"
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", tree, package], check=True, capture_output=True)
    data = package.read_bytes()
    return f"{control}Filename: pool/{package.name}\nSize: {len(data)}\nSHA256: {sha256(data)}\n"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An apt archive that lists four versions and has lost the files of the newest 6.1."""
    root = tmp_path / "archive"
    (root / "pool").mkdir(parents=True)
    (root / "Sources").write_text("\n".join(paragraph(version) for version in CONTENT))
    (root / "Packages").write_text("\n".join(deb(root, *patched) for patched in PATCHED.items()))
    for version, content in CONTENT.items():
        if version != "6.1.11":
            (root / "pool" / f"linux_{version}.orig.tar.xz").write_bytes(content)
            (root / "pool" / f"linux_{version}-1.dsc").write_text(f"linux_{version}-1.dsc")
    return root


@pytest.fixture
def debian(archive: Path, tmp_path: Path) -> list[Place]:
    etc = tmp_path / "etc"
    (etc / "sources.list.d").mkdir(parents=True)
    (etc / "sources.list").write_text(f"# mine\ndeb [trusted=yes] file:{archive} ./\n")
    apt = distro.Apt(etc, tmp_path / "apt")
    return [distro.Debian(apt), distro.LinuxSource(apt)]


@pytest.fixture(autouse=True)
def locations(own_lock: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


def pinned(*wanted: Source) -> None:
    lock.LOCK.write_text("".join(source.line() for source in wanted))


def orig(version: str, sha256: str = "") -> Source:
    return Source("linux", version, sha256 or SHA[version], "debian")


def patched(version: str) -> Source:
    upstream = version.partition("-")[0]
    return Source("linux", upstream, sha256(PATCHED[version]), "linux-source", f"linux-source-6.1={version}")


def test_pinned_version_is_fetched(debian: list[Place]) -> None:
    pinned(orig("6.1.9"))
    sources.fetch(debian)
    assert orig("6.1.9").path.read_bytes() == b"nine"
    assert lock.used() == orig("6.1.9")


def test_what_is_there_needs_no_place() -> None:
    pinned(orig("6.1.9"))
    orig("6.1.9").path.write_bytes(b"nine")
    sources.fetch([])
    assert lock.used() == orig("6.1.9")


def test_wrong_hash_names_both_and_leaves_nothing(debian: list[Place]) -> None:
    pinned(orig("6.1.9", "0" * 64))
    with pytest.raises(UserError, match=f"expected {'0' * 64}, found {SHA['6.1.9']}"):
        sources.fetch(debian)
    assert list(lock.SOURCES.iterdir()) == []


@pytest.mark.parametrize("ci", ["", "true"])
def test_another_version_is_never_taken(debian: list[Place], monkeypatch: pytest.MonkeyPatch, ci: str) -> None:
    monkeypatch.setenv("CI", ci)
    pinned(orig("6.1.11"), Source("linux", "6.1.11", "0" * 64, "srpm", "kernel-6.1.11-1"))
    with pytest.raises(UserError, match=r"6\.1\.11 .*debian lists 6\.1\.11; srpm needs tools.*`make bump`"):
        sources.fetch(debian)
    assert list(lock.SOURCES.iterdir()) == []


def test_next_line_is_tried_and_said_when_one_is_gone(
    debian: list[Place], archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (archive / "pool" / "linux_6.1.10.orig.tar.xz").unlink()
    pinned(orig("6.1.10"), patched("6.1.10-1"))
    sources.fetch(debian)
    assert lock.used() == patched("6.1.10-1")
    assert lock.used().path.read_bytes() == b"ten patched"
    assert "not the tree that was tested: the first line of the lock says debian" in capsys.readouterr().out


def test_linux_source_lists_every_revision(debian: list[Place]) -> None:
    listed = [source.package.partition("=")[2] for source in debian[1].listed("6.1")]
    assert listed == ["6.1.10-2", "6.1.10-1", "6.1.9-1"]
    assert debian[1].listed("6.12") == []


def test_debian_lists_one_series_with_hashes_newest_first(debian: list[Place]) -> None:
    assert debian[0].listed("6.1") == [orig("6.1.11"), orig("6.1.10"), orig("6.1.9")]


def test_both_forms_of_apt_sources_are_read(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://one main\ndeb-src http://one main\n# deb http://off main\n")
    (parts / "two.sources").write_text(
        "Types: deb\nURIs: http://two\nSuites: s\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
        "# third party\nTypes: deb\nURIs: http://three\nSuites: s\nComponents: main\nSigned-By: /etc/three.gpg\n"
    )
    entries = distro.apt_entries(tmp_path)
    assert entries["sources.list"] == "deb http://one main\ndeb-src http://one main\n"
    assert entries["two.sources"].startswith("Types: deb deb-src\nURIs: http://two\n")
    assert "three" not in entries["two.sources"]
