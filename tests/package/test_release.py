"""kernel-thp-release: repository and keys of the builder, signed packages only; the spin that hosts take for newer."""

from __future__ import annotations

import configparser
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from scripts import repository, rpms, secure_boot, signing
from scripts.console import UserError
from tests.package.conftest import FLAVOUR, RELEASE, VERSION, Packages, run

NAME = "kernel-thp-release"
KEY = f"/etc/pki/rpm-gpg/{signing.KEY_NAME}"
CERTIFICATE = f"/usr/share/kernel-thp-release/{secure_boot.CERTIFICATE_NAME}"
REPO_FILE = "/etc/yum.repos.d/kernel-thp.repo"


@pytest.fixture(scope="module")
def root(packages: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    rpms.extract(packages.paths[NAME], folder)
    return folder


def test_keys_are_those_of_the_repository(packages: Packages, root: Path) -> None:
    assert {KEY, CERTIFICATE, REPO_FILE} <= packages.lines(NAME, "--list")
    assert (root / KEY[1:]).read_text() == (FLAVOUR.repo / signing.KEY_NAME).read_text()
    assert (root / CERTIFICATE[1:]).read_bytes() == (FLAVOUR.repo / secure_boot.CERTIFICATE_NAME).read_bytes()


def test_host_takes_signed_packages_and_a_signed_index_only(packages: Packages, root: Path) -> None:
    settings = configparser.ConfigParser()
    settings.read(root / REPO_FILE[1:])
    repo = settings["kernel-thp"]
    assert (repo["gpgcheck"], repo["repo_gpgcheck"], repo["gpgkey"]) == ("1", "1", f"file://{KEY}")
    assert packages.query(NAME, "--configfiles").split() == [REPO_FILE]


def built(spin: int, folder: Path, more: str = "") -> Path:
    """Return a repository with the release package of a spin, and with more at the head of its spec."""
    spec = folder / rpms.RELEASE_SPEC.name
    spec.write_text(more + rpms.RELEASE_SPEC.read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPIN", str(spin))
        stage = replace(rpms.release(), root=folder / f"rpmbuild-{spin}", spec=spec)
        with rpms.alone(stage):
            rpms.build(stage)
    repository.make(stage.packages, folder / f"repo-{spin}", "test\n")
    return folder / f"repo-{spin}"


def dnf(root: Path, repo: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run dnf on a root directory, with nothing but one repository, whose key it checks."""
    config = root.with_suffix(".conf")
    lines = ["[main]", "reposdir=/dev/null", "plugins=0", "[test]", f"baseurl=file://{repo}", "gpgcheck=1"]
    lines += ["repo_gpgcheck=1", f"gpgkey=file://{repo}/{signing.KEY_NAME}"]
    config.write_text("\n".join(lines) + "\n")
    options = ["-y", f"--config={config}", f"--installroot={root}", f"--setopt=cachedir={root}/var/cache"]
    return run("dnf", *options, "--releasever=1", "--setopt=install_weak_deps=0", *command)


def test_next_spin_is_an_upgrade(tmp_path: Path) -> None:
    root = tmp_path / "root"
    for spin, command in ((1, "install"), (2, "upgrade")):
        done = dnf(root, built(spin, tmp_path), command, NAME)
        assert done.returncode == 0, done.stdout + done.stderr
        assert run("rpm", "--root", str(root), "-q", NAME).stdout == f"{NAME}-1.0-{spin}.noarch\n"


def test_older_spin_is_not_built_for_hosts_with_a_newer_one(tmp_path: Path) -> None:
    newer = built(int(RELEASE) + 1, tmp_path)
    present = rpms.releases([rpms.kernel(FLAVOUR), rpms.tools(), rpms.release()])
    assert present == {"kernel-thp": f"{VERSION}-{RELEASE}", "thp-tools": f"1.0-{RELEASE}", NAME: f"1.0-{RELEASE}"}
    with pytest.raises(UserError, match=r"has kernel-thp-release 1\.0-\d+, and this would be .*higher SPIN"):
        repository.refuse_older(present, newer)
    repository.refuse_older(present, FLAVOUR.repo)


@pytest.mark.parametrize(
    ("address", "more", "named"),
    [
        pytest.param("", "", False, id="nothing"),
        pytest.param("https://elsewhere.example.org/", "", True, id="a file"),
        pytest.param("", "Requires: dnf\n", True, id="a requirement"),
    ],
)
def test_change_without_a_new_spin_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    address: str,
    more: str,
    named: bool,
) -> None:
    if address:
        monkeypatch.setenv("REPO_URL", address)
    changed = built(int(RELEASE), tmp_path, more)
    repository.say_unnoticed(sorted(changed.glob("*.rpm")), FLAVOUR.repo)
    assert ("changed under the name of what" in capsys.readouterr().out) is named
