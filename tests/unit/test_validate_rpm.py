"""How the output of the real rpm is read, for a toy package in its own database."""

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
mkdir -p %{buildroot}%{payload}
for name in kept changed removed; do echo "$name" > %{buildroot}%{payload}/$name; done
%files
%{payload}
"""


@pytest.fixture(scope="module")
def rpm(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Build, sign and install the toy, and return a function that runs rpm on its database."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "toy.spec").write_text(SPEC)
    defines = [f"--define=_topdir {folder}/rpmbuild", f"--define=payload {folder}/payload"]
    subprocess.run(["rpmbuild", "-bb", "--quiet", *defines, str(folder / "toy.spec")], check=True, capture_output=True)
    (package,) = (folder / "rpmbuild" / "RPMS").rglob("*.rpm")
    with signing.keyring(folder / "gnupg") as home:
        signing.sign_packages(home, [package])
        signing.export(home, folder / "key")
    database = ["--dbpath", str(folder / "db")]
    subprocess.run(["rpmkeys", *database, "--import", str(folder / "key")], check=True)
    # Debian's rpm requires this option to install beside dpkg; other builds do not have it.
    debian = ["--force-debian"] if Path("/etc/debian_version").exists() else []
    subprocess.run(["rpm", *database, *debian, "-i", "--nodeps", str(package)], check=True, capture_output=True)
    payload = folder / "payload"
    assert sorted(path.name for path in payload.iterdir()) == ["changed", "kept", "removed"]

    def run(*options: str) -> str:
        return subprocess.run(["rpm", *database, *options], capture_output=True, text=True, check=False).stdout

    assert kernel.changes(run("-V", "--nodeps", "--noscripts", "toy")) == ([], [], [])
    (payload / "changed").write_text("otherwise\n")
    (payload / "removed").unlink()
    return run


def test_rpm_names_what_changed(rpm: Callable[..., str]) -> None:
    changed, unread, messages = kernel.changes(rpm("-V", "--nodeps", "--noscripts", "toy"))
    assert unread == messages == []
    assert [Path(line.split()[0]).name for line in changed] == ["changed", "removed"]


def test_rpm_prints_the_signature_and_its_key(rpm: Callable[..., str]) -> None:
    signed = kernel.signature(rpm("-qi", "toy"))
    assert signed is not None
    keys = rpm("-q", "--qf", "%{VERSION}\n", "gpg-pubkey").split()
    assert len(keys) == 1
    assert kernel.key_known(signed, keys)
    assert not kernel.key_known(signed, ["0badc0de"])


@pytest.mark.parametrize(
    ("information", "signed"),
    [
        ("Name        : toy\nSignature   : (none)\n", False),
        ("Name        : toy\n", False),
        ("Signature   : RSA/SHA256, Fri Nov 20 20:26:44 2026, Key ID 1d3c5b7a99887766\n", True),
        # rpm 6 lists signatures, one per line.
        ("Signature   :\n              RSA/SHA512, Fri Nov 20 2026, Key Fingerprint: 00112233445566778899aabb\n", True),
    ],
)
def test_a_signature_is_recognized(information: str, signed: bool) -> None:
    assert (kernel.signature(information) is not None) == signed


def test_an_unreadable_file_is_not_changed() -> None:
    output = (
        "missing     /lib/modules/x/System.map (Permission denied)\n"
        "..?......    /lib/modules/x/vmlinuz\n"
        "S.5....T.  c /etc/toy.conf\n"
        "missing     /lib/modules/x/config\n"
    )
    changed, unread, messages = kernel.changes(output)
    assert messages == []
    assert [line.split()[0] for line in changed] == ["/etc/toy.conf", "/lib/modules/x/config"]
    assert unread == ["/lib/modules/x/System.map", "/lib/modules/x/vmlinuz"]


def test_an_rpm_that_fails_has_not_found_a_change() -> None:
    output = "error: cannot open Packages database in /var/lib/rpm\n"
    assert kernel.changes(output) == ([], [], [output.strip()])


def test_an_unowned_file_differs_from_an_rpm_that_fails(tmp_path: Path) -> None:
    def run(*options: str) -> str:
        command, env = ["rpm", *options], {**os.environ, "LC_ALL": "C"}
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env, check=False
        )
        assert done.returncode != 0
        return done.stdout

    file = tmp_path / "file"
    file.touch()
    assert kernel.failed(run("-qf", str(file))) == []
    assert kernel.failed(run("-qf", str(tmp_path / "missing"))) == []
    assert kernel.failed(run("--dbpath", str(file / "below"), "-qf", str(file))) != []
