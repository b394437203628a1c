"""A host that boots by GRUB, as Fedora and RHEL do: kernel-thp installs, boots once, and leads back when it dies.

The tests build on each other. The loader is set by the collection's code for GRUB, as a rollout does it; what it left
is read by GRUB's own tools.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab import image, repo, snapshots
from lab.host import Host
from lab.loaders import Grub
from lab.vm import DeadHost, Vm
from scripts import collection
from scripts.flavours import CLOUD

RECIPE = replace(snapshots.STOCK, kind=image.GRUB)
pytestmark = [pytest.mark.full, pytest.mark.xdist_group("test_grub")]

TRANSACTION = 600.0
CODE = "/root/collection"
PACKAGE = "ansible_collections/kernel_thp/fleet/plugins/module_utils"


@pytest.fixture(scope="module", autouse=True)
def sources(host: Vm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the host our repository and the collection's code."""
    archive: Path = tmp_path_factory.mktemp("collection") / "code.tar"
    with tarfile.open(archive, "w") as content:
        content.add(collection.SOURCE / "plugins" / "module_utils", PACKAGE)
    host.unpack(archive, CODE)
    with repo.served() as url:
        Host(host).use_repository(url)
        yield


@pytest.fixture(scope="module")
def stock(host: Vm) -> str:
    return host.run("uname -r").text


def loader(host: Vm, expression: str) -> str:
    """Return what the collection's loader says to an expression."""
    script = f"from {PACKAGE.replace('/', '.')} import loaders\nloader = loaders.find()\nprint({expression})\n"
    return host.run(f"PYTHONPATH={CODE} python3 -", stdin=script).text


def environment(host: Vm) -> dict[str, str]:
    found = Host(host).loader
    assert isinstance(found, Grub)
    return found.environment()


def test_the_collection_finds_grub_and_nothing_against_it(host: Vm) -> None:
    assert loader(host, "loader.name, loader.problems()") == "grub []"


def test_a_kernel_that_is_added_would_become_the_default(host: Vm, stock: str) -> None:
    """Otherwise the next test could not fail. An initramfs that is given saves the minute that dracut takes."""
    host.run("grub2-editenv - set saved_entry=another")
    initramfs = f"cp /boot/initramfs-{stock}.img /tmp/initrd"
    host.run(f"{initramfs} && kernel-install add {stock} /lib/modules/{stock}/vmlinuz /tmp/initrd")
    assert environment(host)["saved_entry"] == f"lab-{stock}"


def test_the_default_outlives_the_installation(host: Vm, stock: str) -> None:
    loader(host, f"loader.keep(loader.entry('{stock}'))")
    host.run(f"dnf -y install {CLOUD.package}", timeout=TRANSACTION)
    assert environment(host)["saved_entry"] == f"lab-{stock}"
    assert loader(host, f"loader.kept(loader.entry('{stock}'))") == "True"
    assert loader(host, f"loader.incomplete(loader.entry('{Host(host).uname()}'))") == "[]"
    host.run(f"rpm -V {CLOUD.core} {CLOUD.package}-modules")


def test_it_boots_once(host: Vm, stock: str) -> None:
    entry = Host(host).entry(Host(host).uname())
    loader(host, f"loader.set_once(loader.entry('{Host(host).uname()}'))")
    assert loader(host, "loader.once()") == entry.removesuffix(".conf")
    Host(host).reboot_into(Host(host).uname(), entry)
    assert host.run("getenforce").text == "Enforcing"
    assert loader(host, "loader.once()") == "None"
    assert environment(host)["saved_entry"] == f"lab-{stock}"


def test_a_panic_leads_back_to_the_default(host: Vm, stock: str) -> None:
    with pytest.raises(DeadHost, match=r"the kernel died: .*Kernel panic"):
        host.run("sleep 1; echo c > /proc/sysrq-trigger; sleep 600")
    host.forgive()
    host.wait_ssh()
    Host(host).expect_running(stock)


def test_removal_leaves_nothing_and_the_default(host: Vm, stock: str) -> None:
    name = Host(host).uname()
    host.run(f"dnf -y remove {CLOUD.package} {CLOUD.core} {CLOUD.package}-modules", timeout=TRANSACTION)
    assert host.run("ls /boot/loader/entries").text.split() == [f"lab-{stock}.conf"]
    for left in (f"/lib/modules/{name}", f"/boot/vmlinuz-{name}", f"/boot/initramfs-{name}.img"):
        assert host.run(f"test ! -e {left}", check=False).code == 0, f"{left} is still there"
    assert environment(host)["saved_entry"] == f"lab-{stock}"
