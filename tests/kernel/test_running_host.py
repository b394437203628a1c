"""What people do with a running host: plug in devices, filter, run a container, trace, build a module, read a dump.

The tools are Debian's. The tests share a host. The last but one crashes it, and the last one boots it in FIPS mode.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import debs, image, repo
from lab.host import Host
from lab.vm import PORTS, RUN, DeadHost, Vm
from scripts.flavours import CLOUD, FLAVOURS

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("test_running_host")]

HERE = Path(__file__).resolve().parent
FLAVOUR = FLAVOURS[os.environ.get("FLAVOUR", CLOUD.name)]
# dkms, and what it needs besides the kernel's own headers; kdump; and the rest by test.
TOOLS = (
    *("dkms", "bison", "flex", "gcc", "make", "xz-utils"),
    *("kdump-tools", "makedumpfile", "crash"),
    *("iputils-ping", "nftables", "podman", "crun", "netavark", "iptables", "busybox-static", "bpftool", "bpftrace"),
)
MIB = 1 << 20
DIMM_MIB = 512
# Of the server flavour, these take 3.7 GiB, more than the root file system has left, and minutes to install.
DEBUG, DEBUG_MIB, DEBUG_TIMEOUT = "/usr/lib/debug", 6 * 1024, 1800.0
# Debian's tool saves the dump on the host's own root, in a second boot of the same kernel.
DUMP_TIMEOUT = 900.0
RESERVED = "crashkernel=384M"
KDUMP = """\
USE_KDUMP=1
KDUMP_COREDIR=/var/crash
KDUMP_KERNEL=/efi/lab/{uname}/linux
KDUMP_INITRD=/efi/lab/{uname}/initrd
"""
# Its other way to make cgroups is by a session bus, which this host has not.
PODMAN = "podman --cgroup-manager=cgroupfs"
# Touches each page of so much memory, and keeps it.
FILLER = "import time; b = bytearray({mib} << 20); b[::4096] = b[1::4096]; time.sleep(600)"
# Asks the kernel for a hash by its name, and says whether it has one.
HASH = "import socket; socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).bind(('hash', '{name}'))"
# Some refuse: those for other processors, and those that FIPS mode does not know.
LOAD_ALL = (
    "find {folders} -name '*.ko*' -printf '%f\\n' | sed 's/[.]ko.*//' | xargs -n 1 modprobe -q 2> /dev/null; true"
)
SOON = "for i in $(seq 60); do {condition} && exit 0; sleep 1; done; exit 1"


@pytest.fixture(scope="module")
def host() -> Iterator[Vm]:
    folder = RUN / "kernel.test_running_host"
    machine = Vm(image.build(image.BOOKWORM), folder, "running-host", swap_mib=DEBUG_MIB, hotplug=True)
    with machine as vm, repo.served(FLAVOUR.repo) as url:
        vm.wait_ssh()
        host = Host(vm)
        host.loader.set_default(host.entry(vm.run("uname -r").text))
        vm.run(f"sed -i 's/$/ {RESERVED}/' /etc/kernel/cmdline")
        debs.install(vm, *TOOLS)
        vm.write("/tmp/provides.spec", (HERE / "module-builder.spec").read_text())
        vm.run("cd /tmp && rpmbuild -bb --define '_rpmdir /tmp' provides.spec && rpm -i --force-debian noarch/*.rpm")
        host.use_repository(url)
        host.install(FLAVOUR.package, f"{FLAVOUR.package}-devel")
        # The disk that other hosts swap on. The second kernel of a crash can do without it.
        vm.run(f"mkfs.ext4 -q -L debug /dev/disk/by-id/nvme-*_swap && mkdir -p {DEBUG}")
        vm.run(f"echo LABEL=debug {DEBUG} ext4 nofail 0 0 >> /etc/fstab && systemctl daemon-reload && mount {DEBUG}")
        vm.run(f"dnf -y install {FLAVOUR.package}-debuginfo", timeout=DEBUG_TIMEOUT)
        host.boot_once(host.uname(FLAVOUR))
        yield vm


def wait(host: Vm, condition: str) -> None:
    host.run(SOON.format(condition=condition))


def mib(field: str) -> str:
    """Return a command that prints a field of /proc/meminfo."""
    return f"awk '/^{field}/ {{print int($2 / 1024)}}' /proc/meminfo"


@pytest.mark.parametrize("driver", ["virtio-blk-pci", "nvme"])
def test_a_disk_can_be_plugged_in_and_out(host: Vm, driver: str) -> None:
    disk = image.sparse(host.directory / f"{driver}.img", 64)
    where = "/dev/disk/by-id/virtio-plugged" if driver == "virtio-blk-pci" else "/dev/disk/by-id/nvme-*_plugged"
    file = {"driver": "file", "filename": str(disk)}
    host.monitor.execute("blockdev-add", {"driver": "raw", "node-name": driver, "file": file})
    host.monitor.execute(
        "device_add", {"driver": driver, "id": "disk", "drive": driver, "serial": "plugged", "bus": PORTS[0]}
    )
    wait(host, f"[ -b {where} ]")
    host.run(f"mkfs.ext4 -q {where} && mount {where} /mnt && cp /etc/os-release /mnt && umount /mnt")
    assert b"Debian GNU/Linux" in disk.read_bytes()
    host.monitor.execute("device_del", {"id": "disk"})
    wait(host, f"[ ! -e {where} ]")


def test_a_network_card_can_be_plugged_in_and_out(host: Vm) -> None:
    mac = "52:54:00:00:00:77"
    host.monitor.execute("netdev_add", {"type": "user", "id": "second", "net": "198.51.100.0/24"})
    host.monitor.execute(
        "device_add",
        {"driver": "virtio-net-pci", "id": "card", "netdev": "second", "mac": mac, "bus": PORTS[1], "romfile": ""},
    )
    named = f"ip -o link | grep -q {mac}"
    wait(host, named)
    name = host.run(f"ip -o link | sed -n 's/^[0-9]*: \\([^:]*\\):.*{mac}.*/\\1/p'").text
    host.run(f"ip address add 198.51.100.9/24 dev {name} && ip link set {name} up")
    host.run(f"ping -c 3 -i 0.5 -w 30 -I {name} 198.51.100.2")
    host.monitor.execute("device_del", {"id": "card"})
    wait(host, f"! {named}")


def test_a_processor_can_be_plugged_in(host: Vm) -> None:
    """It works, and can be taken offline. QEMU without KVM does not survive that one is unplugged."""
    free = [slot for slot in host.monitor.listing("query-hotpluggable-cpus") if "qom-path" not in slot]
    place = min(free, key=lambda slot: int(slot["props"]["core-id"]))
    host.monitor.execute("device_add", {"driver": place["type"], "id": "processor", **place["props"]})
    third = "/sys/devices/system/cpu/cpu2"
    wait(host, f"[ -e {third}/online ]")
    host.run(f"[ $(cat {third}/online) = 1 ] || echo 1 > {third}/online")
    host.run(f"taskset -c 2 sha256sum /usr/bin/python3 && echo 0 > {third}/online")


def test_memory_can_be_plugged_in_and_out(host: Vm) -> None:
    """It is online at once, and goes away again although huge pages are in it, which have to move."""

    # Only memory without pages of the kernel's own can go away.
    host.run("echo online_movable > /sys/devices/system/memory/auto_online_blocks")
    before = int(host.run(mib("MemTotal")).text)
    host.monitor.execute("object-add", {"qom-type": "memory-backend-ram", "id": "more", "size": DIMM_MIB * MIB})
    host.monitor.execute("device_add", {"driver": "pc-dimm", "id": "dimm", "memdev": "more"})
    wait(host, f"[ $({mib('MemTotal')}) -ge {before + DIMM_MIB} ]")
    host.run("echo always > /sys/kernel/mm/transparent_hugepage/enabled")
    host.run(f"systemd-run --unit=filler python3 -c '{FILLER.format(mib=before // 2)}'")
    wait(host, f"[ $({mib('AnonHugePages')}) -ge {before // 3} ]")
    host.monitor.execute("device_del", {"id": "dimm"})
    wait(host, f"[ $({mib('MemTotal')}) -le {before} ]")
    host.run("systemctl is-active filler && systemctl stop filler")


def test_a_ruleset_with_log_and_nat_is_in_force(host: Vm) -> None:
    host.run("cat > /tmp/firewall.nft && nft -f /tmp/firewall.nft", stdin=(HERE / "firewall.nft").read_text())
    host.run("dmesg -C; ! timeout 5 bash -c '< /dev/tcp/127.0.0.1/7'")
    assert re.search(r"lab-refused: IN=lo .*DPT=7\b", host.run("dmesg").text)
    host.run("nft delete table inet lab")


def test_a_container_has_a_network_of_its_own(host: Vm) -> None:
    """Its port is published by NAT rules, and it reaches what is outside, by masquerading."""
    host.run(
        "mkdir -p /srv/box/bin /srv/box/www && cp /bin/busybox /srv/box/bin && echo served > /srv/box/www/index.html"
    )
    box = "--name box --rootfs -p 8080:80 /srv/box /bin/busybox httpd -f -h /www -p 80"
    host.run(f"{PODMAN} run -d {box}")
    assert host.run("busybox wget -q -O - http://10.0.2.15:8080/").text == "served"
    repository = host.run("sed -n s/^baseurl=//p /etc/yum.repos.d/kernel-thp.repo").text
    assert "kernel-thp" in host.run(f"{PODMAN} exec box /bin/busybox wget -q -O - {repository}/SHA256SUMS").text
    rules = host.run("iptables-save -t nat").text
    assert "MASQUERADE" in rules
    assert "--to-destination" in rules
    host.run(f"{PODMAN} rm -f -t 0 box")


def test_the_types_of_the_kernel_and_of_a_module_are_readable(host: Vm) -> None:
    types = host.run("bpftool btf dump file /sys/kernel/btf/vmlinux").text
    assert re.search(r"STRUCT 'deferred_split' size=", types)
    module = "bpftool btf dump -B /sys/kernel/btf/vmlinux file /sys/kernel/btf/nf_tables"
    assert "STRUCT 'nft_chain_hook'" in host.run(f"modprobe nf_tables && {module}").text


def test_a_tracer_follows_the_kernels_types(host: Vm) -> None:
    """bpftrace has no header file here: where a field is, it learns from the running kernel."""
    program = (
        'kfunc:vmlinux:do_sys_openat2 /comm == "cat"/ { printf("%s %d\\n", curtask->comm, curtask->tgid); exit(); }'
    )
    host.run("cat > /tmp/open.bt", stdin=program)
    ran = host.run(
        "while sleep 1; do cat /etc/os-release; done > /dev/null & bpftrace /tmp/open.bt; kill $!", timeout=300
    )
    assert re.search(r"^cat \d+$", ran.text, re.MULTILINE), ran.text


def test_dkms_builds_a_module_that_loads_compressed_firmware(host: Vm) -> None:
    packed = host.directory / "dkms.tar"
    with tarfile.open(packed, "w") as content:
        content.add(HERE / "dkms", "lab_firmware-1")
    host.unpack(packed, "/usr/src")
    host.run("mkdir -p /lib/firmware && printf 'from a compressed file' | xz --check=crc32 > /lib/firmware/lab.bin.xz")
    host.run("dkms install lab_firmware/1", timeout=900)
    host.run("dmesg -C; modprobe lab_firmware")
    assert "lab_firmware: 22 bytes: from a compressed file" in host.run("dmesg").text
    host.run("rmmod lab_firmware && dkms remove lab_firmware/1 --all")


def test_a_crash_leaves_a_dump_that_crash_reads(host: Vm) -> None:
    uname = host.run("uname -r").text
    host.write("/etc/default/kdump-tools", KDUMP.format(uname=uname))
    host.run("systemctl restart kdump-tools")
    assert host.run("cat /sys/kernel/kexec_crash_loaded").text == "1"
    before = host.boot_id()
    with pytest.raises(DeadHost, match=r"the kernel died: .*Kernel panic"):
        host.run("sync; sleep 1; echo c > /proc/sysrq-trigger; sleep 600")
    host.forgive()
    host.wait_ssh(DUMP_TIMEOUT, not_boot=before)
    # The second kernel saves the dump, and reboots then.
    if host.run("[ -e /proc/vmcore ]", check=False).code == 0:
        host.wait_ssh(DUMP_TIMEOUT, not_boot=host.boot_id())
    dump = host.run("ls /var/crash/*/dump.*").text
    wait(host, f"mountpoint -q {DEBUG}")
    said = host.run(
        f"printf 'bt\\nstruct deferred_split\\nquit\\n' | crash -s {DEBUG}/lib/modules/{uname}/vmlinux {dump}",
        timeout=900,
    ).text
    assert "sysrq_handle_crash" in said
    assert "split_queue_len" in said


def test_fips_mode_boots_and_refuses_what_is_not_approved(host: Vm) -> None:
    """In this mode, the kernel panics if an algorithm does not pass its own test."""
    lab = Host(host)
    uname = lab.uname(FLAVOUR)
    md5 = f'python3 -c "{HASH.format(name="md5")}"'
    assert host.run(md5, check=False).code == 0, "MD5 is missing without FIPS mode, too"
    host.run(f"sed -i '/^options /s/$/ fips=1/' {lab.loader.entries}/{lab.entry(uname)}")
    lab.boot_once(uname)
    assert host.run("cat /proc/sys/crypto/fips_enabled").text == "1"
    folders = f"/lib/modules/{uname}/kernel/crypto /lib/modules/{uname}/kernel/arch/x86/crypto"
    host.run(LOAD_ALL.format(folders=folders), timeout=600)
    tested = host.run("grep -c '^selftest *: passed' /proc/crypto").text
    assert int(tested) > 50
    assert "No such file" in host.run(md5, check=False).text
    host.run(f'python3 -c "{HASH.format(name="sha256")}"')
