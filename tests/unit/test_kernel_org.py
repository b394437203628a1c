"""A tarball of kernel.org counts only with the signature of a pinned key over what is inside it."""

from __future__ import annotations

import functools
import hashlib
import http.server
import lzma
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scripts import lock, signature, sources
from scripts.console import UserError
from scripts.kernel_org import KernelOrg
from scripts.lock import Source

pytestmark = pytest.mark.usefixtures("own_lock")

TAR = b"what is in the tar\n" * 1000
UNKNOWN = Source("linux", "6.1.9", lock.UNKNOWN, lock.KERNEL_ORG)


class Signer:
    """A key of its own, and what it signs."""

    def __init__(self, home: Path, name: str, *options: str, until: str = "never") -> None:
        self.home = home / name
        self.home.mkdir(mode=0o700)
        self.name = name
        self.options = options
        self.gpg("--passphrase", "", "--quick-generate-key", f"{name}@example.org", "ed25519", "sign", until)
        listing = self.gpg("--with-colons", "--list-keys").decode().splitlines()
        self.fingerprint = next(line.split(":")[9] for line in listing if line.startswith("fpr:"))

    def gpg(self, *arguments: str, given: bytes = b"") -> bytes:
        command = ["gpg", "--homedir", str(self.home), "--batch", "--quiet", "--pinentry-mode", "loopback"]
        command += [*self.options, *arguments]
        return subprocess.run(command, input=given, capture_output=True, check=True).stdout

    def export(self, keys: Path) -> None:
        keys.mkdir(exist_ok=True)
        (keys / f"{self.name}.asc").write_bytes(self.gpg("--armor", "--export"))

    def sign(self, content: bytes) -> bytes:
        return self.gpg("--armor", "--detach-sign", given=content)

    def stop(self) -> None:
        subprocess.run(["gpgconf", "--kill", "all"], env={**os.environ, "GNUPGHOME": str(self.home)}, check=True)


@pytest.fixture(scope="module")
def signers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Signer, Signer]]:
    # The socket of gpg-agent needs a short path.
    home = tmp_path_factory.mktemp("gpg")
    pair = Signer(home, "maintainer"), Signer(home, "stranger")
    yield pair
    for signer in pair:
        signer.stop()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def mirror(tmp_path: Path, signers: tuple[Signer, Signer], monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A mirror with one release, served over HTTP."""
    folder = tmp_path / "mirror" / "v6.x"
    folder.mkdir(parents=True)
    (folder / "linux-6.1.9.tar.xz").write_bytes(lzma.compress(TAR))
    (folder / "linux-6.1.9.tar.sign").write_bytes(signers[0].sign(TAR))
    handler = functools.partial(Quiet, directory=str(folder.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("KERNEL_ORG", f"http://127.0.0.1:{server.server_port}/")
        yield folder
        server.shutdown()


@pytest.fixture
def place(tmp_path: Path, signers: tuple[Signer, Signer]) -> KernelOrg:
    """The place, with both keys in its folder and one of them pinned."""
    for signer in signers:
        signer.export(tmp_path / "keys")
    return KernelOrg(tmp_path / "keys", {signers[0].fingerprint: "the maintainer"})


def fetch(place: KernelOrg, source: Source = UNKNOWN) -> Source:
    lock.LOCK.write_text(source.line())
    return sources.fetch([place])


def nothing_left() -> bool:
    return list(lock.SOURCES.iterdir()) == []


@pytest.mark.usefixtures("mirror")
def test_signed_tarball_is_taken_and_its_hash_noted(place: KernelOrg, capsys: pytest.CaptureFixture[str]) -> None:
    found = fetch(place)
    assert found.sha256 == hashlib.sha256(found.path.read_bytes()).hexdigest() == lock.used().sha256
    assert lzma.decompress(found.path.read_bytes()) == TAR
    assert "signed by the maintainer" in capsys.readouterr().out


def test_tarball_without_a_hash_is_fetched_once(place: KernelOrg, mirror: Path) -> None:
    found = fetch(place)
    (mirror / "linux-6.1.9.tar.xz").unlink()
    assert fetch(place) == found
    found.path.write_bytes(b"changed behind its back")
    with pytest.raises(UserError, match=r"no place has Linux 6\.1\.9"):
        fetch(place)


@pytest.mark.usefixtures("mirror")
def test_good_signature_does_not_replace_the_hash(place: KernelOrg) -> None:
    with pytest.raises(UserError, match=f"expected {'0' * 64}, found"):
        fetch(place, replace(UNKNOWN, sha256="0" * 64))
    assert nothing_left()


def test_changed_content_is_refused_even_with_its_hash_pinned(place: KernelOrg, mirror: Path) -> None:
    evil = lzma.compress(TAR + b"one line more\n")
    (mirror / "linux-6.1.9.tar.xz").write_bytes(evil)
    with pytest.raises(UserError, match=r"the signature of .* is not good: .*BAD signature"):
        fetch(place, replace(UNKNOWN, sha256=hashlib.sha256(evil).hexdigest()))
    assert nothing_left()


def test_key_that_is_not_pinned_is_refused(place: KernelOrg, mirror: Path, signers: tuple[Signer, Signer]) -> None:
    (mirror / "linux-6.1.9.tar.sign").write_bytes(signers[1].sign(TAR))
    with pytest.raises(UserError, match=f"is signed by {signers[1].fingerprint}, no key of a stable release"):
        fetch(place)
    assert nothing_left()


def test_key_that_is_not_there_is_refused(place: KernelOrg, mirror: Path, signers: tuple[Signer, Signer]) -> None:
    (place.keys / "stranger.asc").unlink()
    (mirror / "linux-6.1.9.tar.sign").write_bytes(signers[1].sign(TAR))
    with pytest.raises(UserError, match=r"is not good: .*[Nn]o public key"):
        fetch(place)
    assert nothing_left()


def test_key_that_has_expired_is_refused(place: KernelOrg, mirror: Path, tmp_path: Path) -> None:
    expired = Signer(tmp_path, "expired", "--faked-system-time", "20200101T000000!", until="1d")
    expired.export(place.keys)
    (mirror / "linux-6.1.9.tar.sign").write_bytes(expired.sign(TAR))
    expired.stop()
    with pytest.raises(UserError, match="is not good"):
        fetch(KernelOrg(place.keys, {expired.fingerprint: "somebody who was"}))
    assert nothing_left()


@pytest.mark.parametrize("damage", [lambda whole: whole[: len(whole) // 2], lambda whole: whole + b"more"])
def test_damaged_tarball_is_refused(place: KernelOrg, mirror: Path, damage: Callable[[bytes], bytes]) -> None:
    tarball = mirror / "linux-6.1.9.tar.xz"
    tarball.write_bytes(damage(tarball.read_bytes()))
    with pytest.raises(UserError, match="is not good"):
        fetch(place)
    assert nothing_left()


def test_missing_signature_is_no_tarball(place: KernelOrg, mirror: Path) -> None:
    (mirror / "linux-6.1.9.tar.sign").unlink()
    with pytest.raises(UserError, match=r"no place has Linux 6\.1\.9 .*kernel\.org lists 6\.1\.9"):
        fetch(place)
    assert nothing_left()


def test_listing_has_one_series_newest_first(place: KernelOrg, mirror: Path) -> None:
    for version in ("6.1.10", "6.12.3", "6.1"):
        (mirror / f"linux-{version}.tar.xz").touch()
    assert [source.version for source in place.listed("6.1")] == ["6.1.10", "6.1.9"]


def test_mirror_that_does_not_answer_is_no_error(place: KernelOrg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_ORG", "http://127.0.0.1:9")
    assert place.listed("6.1") == []
    assert not place.fetch(UNKNOWN, lock.SOURCES / "part")
    assert nothing_left()


def test_mirror_has_to_be_a_url(place: KernelOrg, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNEL_ORG", "mirror.example.org")
    with pytest.raises(UserError, match=r"KERNEL_ORG=mirror\.example\.org is no URL"):
        place.listed("6.1")


def test_keys_in_the_repository_are_the_pinned_ones() -> None:
    found = set()
    for path in signature.KEYS.glob("*.asc"):
        command = ["gpg", "--with-colons", "--no-keyring", "--show-keys", str(path)]
        listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        primary = [below.split(":")[9] for line, below in zip(listing, listing[1:]) if line.startswith("pub:")]
        found.update(primary)
    assert found == set(signature.SIGNERS)
