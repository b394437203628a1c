"""What the packages' scriptlets do to a host: modules map, boot entry and initramfs, in whatever order packages come.

The tests build on each other: one host takes the packages in, step by step, and lets go of them again.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import repo
from lab.host import Host
from lab.vm import Vm
from scripts.flavours import CLOUD

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("test_scriptlets")]

TRANSACTION = 600.0


@pytest.fixture(scope="module", autouse=True)
def repository(host: Vm) -> Iterator[None]:
    with repo.served() as url:
        Host(host).use_repository(url)
        yield


def entries(host: Vm) -> list[str]:
    return [name for name in host.run("ls /efi/loader/entries").text.split() if "+thp" in name]


def initramfs_made(host: Vm) -> float:
    return float(host.run(f"stat -c %.Y /efi/lab/{Host(host).uname()}/initrd").text)


def test_core_alone_makes_a_bootable_entry(host: Vm) -> None:
    host.run(f"dnf -y install {CLOUD.core}", timeout=TRANSACTION)
    assert entries(host) == [f"lab-{Host(host).uname()}+3.conf"]
    name = Host(host).uname()
    host.run(f"test -s /efi/lab/{name}/linux && test -s /lib/modules/{name}/modules.dep")


def test_modules_that_come_later_renew_the_initramfs_and_leave_one_entry(host: Vm) -> None:
    # As if it had been booted and found good in between: its tries are gone.
    name = Host(host).uname()
    host.run(f"cd /efi/loader/entries && mv lab-{name}+3.conf lab-{name}.conf")
    before = initramfs_made(host)
    host.run(f"dnf -y install {CLOUD.package}", timeout=TRANSACTION)
    assert entries(host) == [f"lab-{Host(host).uname()}+3.conf"]
    assert initramfs_made(host) > before
    host.run(f"rpm -V {CLOUD.core} {CLOUD.package}-modules")


def test_removal_leaves_nothing_but_the_stock_kernel(host: Vm) -> None:
    name = Host(host).uname()
    host.run(f"dnf -y remove {CLOUD.package} {CLOUD.core} {CLOUD.package}-modules", timeout=TRANSACTION)
    assert entries(host) == []
    for left in (f"/lib/modules/{name}", f"/efi/lab/{name}"):
        assert host.run(f"test ! -e {left}", check=False).code == 0, f"{left} is still there"
