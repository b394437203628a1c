"""Two releases live side by side, the old one can go, and the one that runs cannot.

The tests build on each other: one host takes both releases in, runs the old one, and lets go of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab import newer_packages, repo
from lab.host import Host
from lab.vm import Vm
from scripts.flavours import CLOUD

TRANSACTION = 600.0
PARTS = (CLOUD.package, CLOUD.core, f"{CLOUD.package}-modules")
ENTRIES = "/efi/loader/entries"


@dataclass(frozen=True)
class Release:
    """One release as the host has it: its packages and its name."""

    version: str

    @property
    def uname(self) -> str:
        return f"{self.version}.x86_64{CLOUD.suffix}"

    @property
    def packages(self) -> str:
        return " ".join(f"{part}-{self.version}" for part in PARTS)


@pytest.fixture(scope="module", autouse=True)
def repositories(host: Vm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder: Path = tmp_path_factory.mktemp("next")
    with repo.served() as present, repo.served(newer_packages.repacked_release(folder)) as following:
        host.write("/etc/yum.repos.d/kernel-thp.repo", repo.repo_file(present))
        later = repo.repo_file(following).replace("[kernel-thp]", "[kernel-thp-next]")
        host.write("/etc/yum.repos.d/kernel-thp-next.repo", later)
        yield


@pytest.fixture(scope="module")
def old() -> Release:
    (package,) = CLOUD.repo.glob(f"{CLOUD.package}-[0-9]*.rpm")
    return Release(package.name.removeprefix(f"{CLOUD.package}-").removesuffix(".x86_64.rpm"))


@pytest.fixture(scope="module")
def new(old: Release) -> Release:
    return Release(f"{old.version.partition('-')[0]}-{newer_packages.SPIN}")


def installed(host: Vm) -> set[str]:
    form = "%{NAME}-%{VERSION}-%{RELEASE}\\n"
    return set(host.run(f"rpm -q --qf '{form}' {' '.join(PARTS)}", check=False).text.split())


def complaints(host: Vm, release: Release) -> str:
    """Say what is not as the packages have it, or what the boot loader misses to start the kernel."""
    Host(host).entry(release.uname)
    files = "; ".join(f"test -s /efi/lab/{release.uname}/{name} || echo no {name}" for name in ("linux", "initrd"))
    verify = f"rpm -V {' '.join(f'{part}-{release.version}' for part in PARTS[1:])}"
    return host.run(f"{{ {files}; {verify}; }} 2>&1", check=False).text


def test_the_next_release_installs_beside_the_first(host: Vm, old: Release, new: Release) -> None:
    host.run(f"dnf -y install {old.packages}", timeout=TRANSACTION)
    # No version: dnf takes the newest, and would take an upgrade for what it is if the packages did not say otherwise.
    host.run(f"dnf -y upgrade {' '.join(PARTS)}", timeout=TRANSACTION)
    assert installed(host) == {*old.packages.split(), *new.packages.split()}
    assert not complaints(host, old)
    assert not complaints(host, new)


def test_the_kernel_that_runs_is_kept_by_dnf(host: Vm, old: Release) -> None:
    # The loader prefers the newest kernel, and the next release cannot be booted.
    stock = Host(host).entry(host.run("uname -r").text)
    entry = Host(host).entry(old.uname)
    Host(host).loader.set_default(stock)
    Host(host).loader.set_once(entry)
    Host(host).reboot_into(old.uname, entry)
    Host(host).wait_blessed(old.uname)
    done = host.run(f"dnf -y remove {CLOUD.core}-{old.version}", timeout=TRANSACTION, check=False)
    assert done.code != 0
    assert f"protected packages: {CLOUD.core}" in done.text
    assert set(old.packages.split()) <= installed(host)


def test_the_modules_that_run_are_kept_from_dnf(host: Vm, old: Release) -> None:
    """dnf protects only the package that owns the kernel image; here it is the scriptlet that refuses."""
    done = host.run(f"dnf -y remove {PARTS[2]}-{old.version}", timeout=TRANSACTION, check=False)
    assert done.code != 0
    assert f"{old.uname} is running" in done.text
    assert not complaints(host, old)


def test_the_kernel_that_runs_is_kept_from_rpm(host: Vm, old: Release) -> None:
    # Debian's rpm before version 6 removes nothing without this option, and newer ones do not know it.
    force = host.run("rpm --help | grep -o -- --force-debian || true").text
    for part in PARTS[1:]:
        done = host.run(f"rpm {force} -e --nodeps {part}-{old.version}", timeout=TRANSACTION, check=False)
        assert done.code != 0
        assert f"{old.uname} is running" in done.text
    assert not complaints(host, old)


def test_the_kernel_that_runs_can_be_installed_again(host: Vm, old: Release) -> None:
    host.run(f"dnf -y reinstall {CLOUD.core}-{old.version}", timeout=TRANSACTION)
    assert not complaints(host, old)


def test_the_old_release_can_go_when_another_kernel_runs(host: Vm, old: Release, new: Release) -> None:
    host.reboot()
    assert host.run("uname -r").text != old.uname
    # Another kernel's name may begin like this one's.
    longer = f"{ENTRIES}/lab-{old.uname}.debug.conf"
    host.run(f"cp {ENTRIES}/{Host(host).entry(old.uname)} {longer}")
    host.run(f"dnf -y remove {old.packages}", timeout=TRANSACTION)
    assert installed(host) == set(new.packages.split())
    assert not complaints(host, new)
    for left in (f"/lib/modules/{old.uname}", f"/efi/lab/{old.uname}", f"{ENTRIES}/lab-{old.uname}*+*.conf"):
        assert host.run(f"ls -d {left}", check=False).code != 0, f"{left} is still there"
    host.run(f"test -e {longer}")
