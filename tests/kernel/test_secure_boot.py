"""A host with Secure Boot: our kernel boots if it is signed by a key that shim knows, and not otherwise.

The firmware has Microsoft's certificates, as that of a bought machine; shim is signed by Microsoft, and GRUB by the
owner, whose certificate is enrolled as a MOK. The tests build on each other. So far the packages come unsigned, and the
kernel is signed here.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import image, repo, secure_boot
from lab.host import Host
from lab.vm import BOOT_TIMEOUT, EFIVARS, RUN, Vm
from scripts import rpms
from scripts.flavours import CLOUD

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("test_secure_boot")]

TRANSACTION = 600.0
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
LOCKDOWN = "/sys/kernel/security/lockdown"
# A signature ends with the size of its content, at a fixed distance before this mark.
UNSIGN = """
import struct, sys
content = open(sys.argv[1], "rb").read()
mark = b"~Module signature appended~\\n"
assert content.endswith(mark)
(size,) = struct.unpack(">I", content[-len(mark) - 4 : -len(mark)])
open(sys.argv[2], "wb").write(content[: -len(mark) - 12 - size])
"""


@pytest.fixture(scope="module")
def host() -> Iterator[Vm]:
    with Vm(image.build(image.GRUB), RUN / "kernel.test_secure_boot", "secure-boot", secure_boot=True) as vm:
        vm.wait_ssh()
        yield vm


@pytest.fixture(scope="module")
def stock(host: Vm) -> str:
    return host.run("uname -r").text


@pytest.fixture(scope="module")
def unsigned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernel as it is in the package."""
    folder = tmp_path_factory.mktemp("core")
    (package,) = CLOUD.repo.glob(f"{CLOUD.core}-[0-9]*.rpm")
    rpms.extract(package, folder)
    (kernel,) = folder.glob("lib/modules/*/vmlinuz")
    return kernel


def uname(host: Vm) -> str:
    return host.run(f"rpm -q --qf '{CLOUD.uname_format}' {CLOUD.core}").text


def put(host: Vm, kernel: Path, folder: Path) -> None:
    """Make this the kernel of our boot entry."""
    with tarfile.open(folder / "kernel.tar", "w") as content:
        content.add(kernel, f"vmlinuz-{uname(host)}")
    host.unpack(folder / "kernel.tar", "/boot")


def test_the_firmware_enforces_signatures(host: Vm) -> None:
    assert host.run(f"od -An -tu1 -j4 {EFIVARS}/SecureBoot-{GLOBAL}").text.strip() == "1"


def test_our_kernel_boots_when_it_is_signed(host: Vm, stock: str, unsigned: Path, tmp_path: Path) -> None:
    # A kernel of kernel.org does not lock itself down because of Secure Boot, as those of distributions do.
    host.run("sed -i 's/$/ lockdown=integrity/' /etc/kernel/cmdline")
    with repo.served() as url:
        Host(host).use_repository(url)
        host.run(f"dnf -y install {CLOUD.package}", timeout=TRANSACTION)
    Host(host).loader.set_default(Host(host).entry(stock))
    secure_boot.sign(unsigned, tmp_path / "vmlinuz")
    put(host, tmp_path / "vmlinuz", tmp_path)
    Host(host).boot_once(uname(host))
    assert "Secure boot enabled" in host.run("journalctl -k -b -o cat").text
    assert "[integrity]" in host.run(f"cat {LOCKDOWN}").text


def test_an_unsigned_module_is_refused(host: Vm) -> None:
    host.run("zstd -dqf $(modinfo -n dummy) -o /tmp/signed.ko")
    host.run("python3 - /tmp/signed.ko /tmp/unsigned.ko", stdin=UNSIGN)
    refused = host.run("insmod /tmp/unsigned.ko", check=False)
    assert refused.code != 0
    assert "Lockdown: insmod: unsigned module loading is restricted" in host.run("journalctl -k -b -o cat").text
    host.run("insmod /tmp/signed.ko")


def test_an_unsigned_kernel_does_not_boot(host: Vm, stock: str, unsigned: Path, tmp_path: Path) -> None:
    """GRUB then waits for somebody at the console. Only the next start leads back."""
    put(host, unsigned, tmp_path)
    Host(host).loader.set_once(Host(host).entry(uname(host)))
    host.run("systemctl --no-block reboot", check=False)
    host.wait_console("bad shim loader signature", BOOT_TIMEOUT)
    host.power_off()
    host.power_on()
    host.wait_ssh()
    Host(host).expect_running(stock)
