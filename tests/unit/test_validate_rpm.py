"""What rpm says of the kernel's package, asked of the real rpm about a toy package in a database of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import signing
from tools.thp_validate import kernel

SPEC = """\
Name: toy
Version: 1
Release: 1
Summary: Toy
License: GPL-2.0-only
BuildArch: noarch
%description
Toy.
%install
mkdir -p %{buildroot}%{place}
for name in kept changed removed; do echo "$name" > %{buildroot}%{place}/$name; done
%files
%{place}
"""


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Build, sign and install the toy, and return a way to ask rpm about it."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "toy.spec").write_text(SPEC)
    defines = [f"--define=_topdir {folder}/rpmbuild", f"--define=place {folder}/place"]
    subprocess.run(["rpmbuild", "-bb", "--quiet", *defines, str(folder / "toy.spec")], check=True, capture_output=True)
    (package,) = (folder / "rpmbuild" / "RPMS").rglob("*.rpm")
    with signing.keyring(folder / "gnupg") as home:
        signing.sign_packages(home, [package])
        signing.export(home, folder / "key")
    database = ["--dbpath", str(folder / "db")]
    subprocess.run(["rpmkeys", *database, "--import", str(folder / "key")], check=True)
    # Debian's rpm asks for this option where it would install beside dpkg; others do not know it.
    debian = ["--force-debian"] if Path("/etc/debian_version").exists() else []
    subprocess.run(["rpm", *database, *debian, "-i", "--nodeps", str(package)], check=True, capture_output=True)
    place = folder / "place"
    assert sorted(path.name for path in place.iterdir()) == ["changed", "kept", "removed"]

    def ask(*question: str) -> str:
        return subprocess.run(["rpm", *database, *question], capture_output=True, text=True, check=False).stdout

    assert kernel.changes(ask("-V", "--nodeps", "--noscripts", "toy")) == ([], [], [])
    (place / "changed").write_text("otherwise\n")
    (place / "removed").unlink()
    return ask


def test_rpm_names_what_changed(asked: Callable[..., str]) -> None:
    changed, unread, said = kernel.changes(asked("-V", "--nodeps", "--noscripts", "toy"))
    assert unread == said == []
    assert [Path(line.split()[0]).name for line in changed] == ["changed", "removed"]


def test_rpm_tells_the_signature_and_its_key(asked: Callable[..., str]) -> None:
    signed = kernel.signature(asked("-qi", "toy"))
    assert signed is not None
    keys = asked("-q", "--qf", "%{VERSION}\n", "gpg-pubkey").split()
    assert len(keys) == 1
    assert kernel.key_known(signed, keys)
    assert not kernel.key_known(signed, ["0badc0de"])


@pytest.mark.parametrize(
    ("information", "signed"),
    [
        ("Name        : toy\nSignature   : (none)\n", False),
        ("Name        : toy\n", False),
        ("Signature   : RSA/SHA256, Fri Nov 20 20:26:44 2026, Key ID 1d3c5b7a99887766\n", True),
        # rpm 6 lists signatures, one a line.
        ("Signature   :\n              RSA/SHA512, Fri Nov 20 2026, Key Fingerprint: 00112233445566778899aabb\n", True),
    ],
)
def test_a_signature_is_recognized(information: str, signed: bool) -> None:
    assert (kernel.signature(information) is not None) == signed


def test_what_may_not_be_read_is_not_changed() -> None:
    said = (
        "missing     /lib/modules/x/System.map (Permission denied)\n"
        "..?......    /lib/modules/x/vmlinuz\n"
        "S.5....T.  c /etc/toy.conf\n"
        "missing     /lib/modules/x/config\n"
    )
    changed, unread, besides = kernel.changes(said)
    assert besides == []
    assert [line.split()[0] for line in changed] == ["/etc/toy.conf", "/lib/modules/x/config"]
    assert unread == ["/lib/modules/x/System.map", "/lib/modules/x/vmlinuz"]


def test_an_rpm_that_fails_has_not_found_a_change() -> None:
    said = "error: cannot open Packages database in /var/lib/rpm\n"
    assert kernel.changes(said) == ([], [], [said.strip()])


def test_a_file_of_nobody_is_told_from_an_rpm_that_fails(tmp_path: Path) -> None:
    def ask(*question: str) -> str:
        command, env = ["rpm", *question], {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, check=False
        )
        assert done.returncode != 0
        return done.stdout

    file = tmp_path / "file"
    file.touch()
    assert kernel.failed(ask("-qf", str(file))) == []
    assert kernel.failed(ask("-qf", str(tmp_path / "missing"))) == []
    assert kernel.failed(ask("--dbpath", str(file / "below"), "-qf", str(file))) != []
