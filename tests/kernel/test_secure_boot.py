"""A host with Secure Boot: our kernel boots once its certificate is enrolled, and thp-validate says so beforehand.

The firmware has Microsoft's certificates, as that of a bought machine; shim is signed by Microsoft, and GRUB by the
owner, whose certificate is enrolled as a MOK. The kernel is that of the package, with the signature it was built with.
Its certificate is enrolled while the host is off: at the console, MokManager would ask for a password. The tests build
on each other.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab import image, repo, secure_boot
from lab.host import Host
from lab.vm import BOOT_TIMEOUT, EFIVARS, RUN, Vm
from scripts import rpms
from scripts.flavours import CLOUD
from scripts.secure_boot import CERTIFICATE_NAME

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("test_secure_boot")]

RELEASE = "/usr/share/kernel-thp-release"
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
    # Its power is cut.
    place = RUN / "kernel.test_secure_boot"
    with Vm(image.build(image.GRUB), place, "secure-boot", secure_boot=True, durable=True) as vm:
        vm.wait_ssh()
        yield vm


@pytest.fixture(scope="module")
def stock(host: Vm) -> str:
    return host.run("uname -r").text


def validated(host: Vm) -> dict[str, Any]:
    """Return what thp-validate says of Secure Boot and our kernel, with the check's result and hint."""
    found = json.loads(host.run(f"thp-validate --json --kernel {Host(host).uname()} 2> /dev/null", check=False).text)
    hint = next((reason["hint"] for reason in found["reasons"] if reason["id"] == "secure-boot"), "")
    return {**found["secure_boot"], "result": found["checks"]["secure-boot"], "hint": hint}


def expect_refused(host: Vm) -> None:
    """GRUB does not start our kernel, and waits for somebody at the console. Only the next start leads back."""
    Host(host).loader.set_once(Host(host).entry(Host(host).uname()))
    host.run("systemctl --no-block reboot", check=False)
    host.wait_console("bad shim loader signature", BOOT_TIMEOUT)
    host.forgive()
    host.power_off()


def expect_stock(host: Vm, stock: str) -> None:
    host.power_on()
    host.wait_ssh()
    Host(host).expect_running(stock)


def test_the_firmware_enforces_signatures(host: Vm) -> None:
    assert host.run(f"od -An -tu1 -j4 {EFIVARS}/SecureBoot-{GLOBAL}").text.strip() == "1"


def test_what_is_missing_is_said_before_the_reboot(host: Vm, stock: str) -> None:
    with repo.served() as url:
        Host(host).use_repository(url)
        Host(host).install(CLOUD.package, "kernel-thp-release", "thp-tools")
    Host(host).loader.set_default(Host(host).entry(stock))
    found = validated(host)
    assert (found["enforced"], found["shim"], found["state"], found["result"]) == (True, True, "unknown", "degraded")
    assert found["hint"].startswith(f"`mokutil --import {RELEASE}/{CERTIFICATE_NAME}`, reboot, and confirm")


def test_without_the_certificate_our_kernel_does_not_boot(host: Vm, stock: str) -> None:
    expect_refused(host)
    secure_boot.enroll(host.variables, CLOUD.repo / CERTIFICATE_NAME)
    expect_stock(host, stock)


def test_with_the_certificate_our_kernel_boots_and_is_locked_down(host: Vm) -> None:
    found = validated(host)
    assert (found["state"], found["result"]) == ("trusted", "ok")
    Host(host).boot_once(Host(host).uname())
    assert "Secure boot enabled" in host.run("journalctl -k -b -o cat").text
    assert "[integrity]" in host.run(f"cat {LOCKDOWN}").text
    assert validated(host)["result"] == "ok"


def test_an_unsigned_module_is_refused(host: Vm) -> None:
    host.run("zstd -dqf $(modinfo -n dummy) -o /tmp/signed.ko")
    host.run("python3 - /tmp/signed.ko /tmp/unsigned.ko", stdin=UNSIGN)
    # SELinux takes modules only from files of their type.
    host.run("selinuxenabled && chcon -t modules_object_t /tmp/*signed.ko || true")
    refused = host.run("insmod /tmp/unsigned.ko", check=False)
    assert refused.code != 0
    # IMA's policy for Secure Boot has the kernel take none, before lockdown is asked.
    assert "Loading of unsigned module is rejected" in host.run("dmesg").text
    host.run("insmod /tmp/signed.ko")


def test_an_unsigned_kernel_does_not_boot(host: Vm, stock: str, tmp_path: Path) -> None:
    (package,) = CLOUD.repo.glob(f"{CLOUD.core}-[0-9]*.rpm")
    rpms.extract(package, tmp_path)
    (kernel,) = tmp_path.glob("lib/modules/*/vmlinuz")
    subprocess.run(["sbattach", "--remove", str(kernel)], check=True, capture_output=True)
    with tarfile.open(tmp_path / "kernel.tar", "w") as content:
        content.add(kernel, f"vmlinuz-{Host(host).uname()}")
    host.unpack(tmp_path / "kernel.tar", "/boot")
    expect_refused(host)
    expect_stock(host, stock)
