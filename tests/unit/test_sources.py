"""Sources come from where the lock says, with the hash it says; what is not available is one line of error."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import distro, lock, sources
from scripts.console import UserError
from scripts.lock import Source

CONTENT = {"6.1.9": b"nine", "6.1.10": b"ten", "6.1.11": b"eleven", "6.12.1": b"another series"}
SHA = {version: hashlib.sha256(content).hexdigest() for version, content in CONTENT.items()}


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


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """An apt archive that lists four versions and has lost the files of the newest 6.1."""
    root = tmp_path / "archive"
    (root / "pool").mkdir(parents=True)
    (root / "Sources").write_text("\n".join(paragraph(version) for version in CONTENT))
    for version, content in CONTENT.items():
        if version != "6.1.11":
            (root / "pool" / f"linux_{version}.orig.tar.xz").write_bytes(content)
            (root / "pool" / f"linux_{version}-1.dsc").write_text(f"linux_{version}-1.dsc")
    return root


@pytest.fixture
def debian(archive: Path, tmp_path: Path) -> distro.Debian:
    etc = tmp_path / "etc"
    (etc / "sources.list.d").mkdir(parents=True)
    (etc / "sources.list").write_text(f"# mine\ndeb [trusted=yes] file:{archive} ./\n")
    return distro.Debian(etc, tmp_path / "apt")


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sources").mkdir()
    monkeypatch.setattr(lock, "SOURCES", tmp_path / "sources")
    monkeypatch.setattr(lock, "USED", tmp_path / "sources" / "used.lock")
    monkeypatch.setattr(lock, "LOCK", tmp_path / "sources.lock")
    monkeypatch.setattr(sources, "SPEC", tmp_path / "test.spec")
    monkeypatch.setattr(sources, "KERNEL_ORG", "http://127.0.0.1:9/v{major}.x/linux-{version}.tar.xz")
    monkeypatch.delenv("CI", raising=False)


def pinned(version: str, sha256: str, kind: str = "debian") -> Source:
    source = Source("linux", version, sha256, kind)
    lock.LOCK.write_text(f"# why\n{source.line()}")
    return source


def use(host: distro.Debian, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distro, "host", lambda: host)


def test_pinned_version_is_fetched(debian: distro.Debian, monkeypatch: pytest.MonkeyPatch) -> None:
    use(debian, monkeypatch)
    source = pinned("6.1.9", SHA["6.1.9"])
    sources.fetch()
    assert source.path.read_bytes() == b"nine"
    assert lock.used() == source


def test_fetched_version_needs_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distro, "host", lambda: pytest.fail("asked the distribution"))
    source = pinned("6.1.9", SHA["6.1.9"])
    source.path.write_bytes(b"nine")
    sources.fetch()
    assert lock.used() == source


def test_wrong_hash_names_both_and_leaves_nothing(debian: distro.Debian, monkeypatch: pytest.MonkeyPatch) -> None:
    use(debian, monkeypatch)
    monkeypatch.setenv("CI", "true")
    source = pinned("6.1.9", "0" * 64)
    with pytest.raises(UserError, match=f"expected {'0' * 64}, found {SHA['6.1.9']}"):
        sources.fetch()
    assert list(source.path.parent.iterdir()) == []


def test_gone_version_names_the_newest_available(debian: distro.Debian, monkeypatch: pytest.MonkeyPatch) -> None:
    use(debian, monkeypatch)
    pinned("6.1.11", SHA["6.1.11"])
    with pytest.raises(UserError, match=r"6\.1\.11 .* the newest available is 6\.1\.10; run `make bump`"):
        sources.fetch()
    assert not lock.USED.exists()


def test_ci_takes_the_newest_loudly(
    debian: distro.Debian, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(debian, monkeypatch)
    monkeypatch.setenv("CI", "true")
    pinned("6.1.11", SHA["6.1.11"])
    sources.fetch()
    assert lock.used() == Source("linux", "6.1.10", SHA["6.1.10"], "debian")
    assert "*** CI" in capsys.readouterr().out


def test_bump_pins_the_newest_available(debian: distro.Debian, monkeypatch: pytest.MonkeyPatch) -> None:
    use(debian, monkeypatch)
    pinned("6.1.9", SHA["6.1.9"])
    sources.SPEC.write_text("%{!?base:%global base 6.1.9}\n%changelog\n")
    sources.bump()
    assert lock.LOCK.read_text() == f"# why\nlinux 6.1.10 {SHA['6.1.10']} debian\n"
    assert "%global base 6.1.10}" in sources.SPEC.read_text()
    assert "- Linux 6.1.10." in sources.SPEC.read_text()


def test_bump_never_goes_back(debian: distro.Debian, monkeypatch: pytest.MonkeyPatch) -> None:
    use(debian, monkeypatch)
    pinned("6.1.11", SHA["6.1.11"])
    before = lock.LOCK.read_text()
    sources.bump()
    assert lock.LOCK.read_text() == before


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[str]:
    root = tmp_path / "mirror" / "v6.x"
    root.mkdir(parents=True)
    (root / "linux-6.1.9.tar.xz").write_bytes(b"nine")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(root.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v{{major}}.x/linux-{{version}}.tar.xz"
        server.shutdown()


def test_kernel_org_is_used_when_it_answers(
    mirror: str, debian: distro.Debian, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(debian, monkeypatch)
    monkeypatch.setattr(sources, "KERNEL_ORG", mirror)
    source = pinned("6.1.9", SHA["6.1.9"], "kernel.org")
    sources.fetch()
    assert source.path.read_bytes() == b"nine"


def test_next_kind_is_tried_when_one_does_not_answer(debian: distro.Debian, monkeypatch: pytest.MonkeyPatch) -> None:
    use(debian, monkeypatch)
    first = pinned("6.1.9", SHA["6.1.9"], "kernel.org")
    second = Source("linux", "6.1.9", SHA["6.1.9"], "debian")
    lock.LOCK.write_text(first.line() + second.line())
    sources.fetch()
    assert lock.used() == second


def test_both_forms_of_apt_sources_are_read(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://one main\ndeb-src http://one main\n# deb http://off main\n")
    (parts / "two.sources").write_text(
        "Types: deb deb-src\nURIs: http://two\nSuites: s\nComponents: main\n"
        "Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\n"
        "# third party\nTypes: deb\nURIs: http://three\nSuites: s\nComponents: main\nSigned-By: /etc/three.gpg\n"
    )
    entries = distro.source_entries(tmp_path)
    assert entries["sources.list"] == "deb-src http://one main\n"
    assert entries["two.sources"].startswith("Types: deb-src\nURIs: http://two\n")
    assert "three" not in entries["two.sources"]


@pytest.mark.parametrize("line", ["linux 6.1.9 abc debian", "linux 6.1.9", f"linux x {'0' * 64} debian"])
def test_malformed_lock_is_named_by_line(line: str) -> None:
    lock.LOCK.write_text(f"# why\n{line}\n")
    with pytest.raises(UserError, match=":2 is not"):
        lock.read()


def test_spec_and_lock_name_one_version() -> None:
    spec = Path(__file__).parents[2] / "SPECS" / "kernel-thp.spec"
    base = lock.read(Path(__file__).parents[2] / "SOURCES" / "sources.lock")[0].version
    assert f"%{{!?base:%global base {base}}}\n" in spec.read_text()
