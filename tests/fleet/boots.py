"""Why a new kernel does not get as far as to answer: each of these breaks a host's next kernel and not its present one.

What is written here is in place before the kernel is installed, as it would be on a host that has waited for a reboot.
"""

from __future__ import annotations

from tests.fleet.hosts import Member

# What RPM distributions have in every initramfs, and the lab leaves out because it takes dracut longer.
SYSTEMD = 'dracutmodules+=" systemd-initrd dracut-systemd "\n'
# What gives up waiting for the root file system: there for LVM, RAID, encryption and the network, which leave this file
# in the initramfs, but not for every root on a plain partition. It became a module of its own later.
NEEDS_QUEUE = "/usr/lib/dracut/need-initqueue"
QUEUE = f"""\
install_items+=" {NEEDS_QUEUE} "
ls -d /usr/lib/dracut/modules.d/*initqueue > /dev/null 2>&1 && dracutmodules+=" initqueue "
"""
DRACUT = "/etc/dracut.conf.d/zz-lab.conf"
# How many seconds that waits; its default is 180.
SOON, NEVER = "rd.retry=20", "rd.retry=7200"
HANG = "lab-hang.service"
UNITS = "/etc/systemd/system"
HANG_UNIT = """\
[Unit]
DefaultDependencies=no
Before=initrd-root-fs.target
[Service]
Type=oneshot
ExecStart=/usr/bin/sleep infinity
[Install]
WantedBy=initrd.target
"""
# Debian's kernel has a driver for this file system, ours for virtual machines has not.
FILE_SYSTEM, VOLUME, MOUNT_POINT = "minix", "/root/lab-volume", "/mnt/lab"
NETWORK = """\
[Match]
Name=*
KernelVersion={uname}
[Link]
Unmanaged=yes
"""


def _systemd_in_initramfs(member: Member, *more: str) -> None:
    member.vm.write(DRACUT, "".join([SYSTEMD, *more]))


def _command_line(member: Member, change: str) -> None:
    """Change what kernels get that are installed from now on, by a command of sed."""
    member.vm.run(f"sed -i '{change}' /etc/kernel/cmdline")


def no_root_driver(member: Member) -> None:
    """The driver of the root disk is there, as far as anybody can tell, and does nothing; dracut gives up soon."""
    member.vm.run(f"touch {NEEDS_QUEUE}")
    _systemd_in_initramfs(member, QUEUE)
    _command_line(member, f"s/$/ initcall_blacklist=virtio_blk_init {SOON}/")


def wrong_root(member: Member) -> None:
    """There is no such partition, and nothing in the initramfs that gives up waiting for it."""
    _systemd_in_initramfs(member)
    _command_line(member, f"s/root=[^ ]*/root=PARTLABEL=nowhere {NEVER}/")


def hanging_initramfs(member: Member) -> None:
    """What follows the mount of the root file system waits for something that never ends."""
    member.vm.write(f"{UNITS}/{HANG}", HANG_UNIT)
    member.vm.run(f"systemctl enable --quiet {HANG}")
    files = f"{UNITS}/{HANG} {UNITS}/initrd.target.wants/{HANG} /usr/bin/sleep"
    _systemd_in_initramfs(member, f'install_items+=" {files} "\n')


def broken_fstab(member: Member) -> None:
    """A line that somebody has added and never tried; without the file system, systemd enters emergency mode."""
    member.vm.run(f"truncate -s 8M {VOLUME} && mkfs.{FILE_SYSTEM} {VOLUME} && mkdir -p {MOUNT_POINT}")
    member.vm.run(f"echo {VOLUME} {MOUNT_POINT} {FILE_SYSTEM} loop 0 0 >> /etc/fstab && systemctl daemon-reload")
    # The old kernel has to boot with it, or the host would be lost.
    member.vm.run(f"mount {MOUNT_POINT} && umount {MOUNT_POINT}")


def no_network(member: Member, uname: str) -> None:
    """This kernel boots without fault, and its network stays down."""
    member.vm.write("/etc/systemd/network/05-lab-none.network", NETWORK.format(uname=uname))
