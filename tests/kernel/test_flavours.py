"""Both flavours live side by side on one host, and removing one leaves the other (`make flavours`).

The tests build on each other.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import repo
from lab.host import Host
from lab.vm import Vm
from scripts.flavours import CLOUD, SERVER, Flavour

TRANSACTION = 600.0


@pytest.fixture(scope="module", autouse=True)
def repositories(host: Vm) -> Iterator[None]:
    with repo.served() as cloud, repo.served(SERVER.repo) as server:
        host.write("/etc/yum.repos.d/kernel-thp.repo", repo.repo_file(cloud))
        other = repo.repo_file(server).replace("[kernel-thp]", "[kernel-thp-server]")
        host.write("/etc/yum.repos.d/kernel-thp-server.repo", other)
        yield


def test_both_install_and_have_an_entry_each(host: Vm) -> None:
    host.run(f"dnf -y install {CLOUD.package} {SERVER.package}", timeout=TRANSACTION)
    unames = {Host(host).uname(flavour) for flavour in (CLOUD, SERVER)}
    assert len({Host(host).entry(name) for name in unames}) == 2
    host.run(f"rpm -V {CLOUD.core} {SERVER.core}")


@pytest.mark.parametrize("flavour", [CLOUD, SERVER], ids=lambda flavour: flavour.name)
def test_each_boots_and_uname_tells_which_it_is(host: Vm, flavour: Flavour) -> None:
    Host(host).boot_once(Host(host).uname(flavour))
    assert host.run("uname -r").text.endswith(f".x86_64{flavour.suffix}")


def test_removing_the_server_flavour_leaves_the_cloud_flavour(host: Vm) -> None:
    """The name of the first is the beginning of the name of the second."""
    host.reboot()
    left, gone = Host(host).uname(CLOUD), Host(host).uname(SERVER)
    host.run(f"dnf -y remove {SERVER.package} {SERVER.core} {SERVER.package}-modules", timeout=TRANSACTION)
    assert Host(host).entry(left)
    host.run(f"rpm -V {CLOUD.core} {CLOUD.package}-modules")
    names = host.run(f"ls {Host(host).loader.entries}").text.split()
    assert not any(name.startswith((f"lab-{gone}.conf", f"lab-{gone}+")) for name in names)
