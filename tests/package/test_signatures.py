"""Packages and repository are signed with one key; a changed package or index is refused."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from scripts import rpms
from tests.package.conftest import FLAVOUR, META, Packages, run

KEY = FLAVOUR.repo / rpms.KEY_NAME


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an rpm database that trusts the repository's key."""
    folder = tmp_path_factory.mktemp("rpmdb")
    subprocess.run(["rpmkeys", "--dbpath", str(folder), "--import", str(KEY)], check=True)
    return folder


def check(database: Path, package: Path) -> subprocess.CompletedProcess[str]:
    return run("rpmkeys", "--dbpath", str(database), "--define", "_pkgverify_level all", "-Kv", str(package))


def test_every_package_is_signed(packages: Packages, database: Path) -> None:
    for package in packages.paths.values():
        done = check(database, package)
        assert done.returncode == 0, done.stdout
        assert "Header V4 RSA/SHA256 Signature" in done.stdout


def test_unknown_key_is_refused(packages: Packages, tmp_path: Path) -> None:
    assert check(tmp_path, packages.paths[META]).returncode != 0


def test_tampered_package_is_refused(packages: Packages, database: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(packages.paths["kernel-thp-selftests"], tmp_path))
    content = bytearray(copy.read_bytes())
    content[-100] ^= 0xFF
    copy.write_bytes(content)
    assert check(database, copy).returncode != 0


def test_repository_is_signed(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    index = FLAVOUR.repo / "repodata" / "repomd.xml"
    gpg = ["gpg", "--batch", "--homedir", str(tmp_path)]
    subprocess.run([*gpg, "--quiet", "--import", str(KEY)], check=True, capture_output=True)
    assert run(*gpg, "--verify", f"{index}.asc", str(index)).returncode == 0
    other = tmp_path / "repomd.xml"
    other.write_text(index.read_text() + "\n")
    assert run(*gpg, "--verify", f"{index}.asc", str(other)).returncode != 0
