"""Faults are injected into the machine or its system, never into the collection."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable
from pathlib import Path

from lab.vm import DeadHost
from scripts.console import UserError
from tests.fleet.hosts import Member

ANNOUNCE = Path(__file__).with_name("announce.py")
SCRIPT = "/root/announce.py"
POLL = 0.2
SLOW_SPEC = """\
Name: lab-slow
Version: 1
Release: 1
Summary: A package that takes its time
License: GPL-2.0-only
BuildArch: noarch
%description
Its scriptlet waits until /run/slow-may-end exists.
%pre
touch /run/slow-began
until [ -e /run/slow-may-end ]; do sleep 0.5; done
%files
"""
# Makes the kernel complain for real: a file system is frozen until a write to it has waited for too long.
BLOCKED = (
    "set -e",
    "echo 5 > /proc/sys/kernel/hung_task_timeout_secs",
    "truncate -s 32M /run/lab.img && mkfs.ext4 -q /run/lab.img && mkdir -p /run/lab",
    "mount -o loop /run/lab.img /run/lab && fsfreeze -f /run/lab",
    "touch /run/lab/file &",
    "until dmesg | grep -q 'blocked for more than'; do sleep 1; done",
    "fsfreeze -u /run/lab; wait; umount /run/lab",
)
# SELinux keeps the mkfs of a service from files in /run, but not that of an administrator.
BLOCKED_UNIT = """\
[Unit]
ConditionKernelVersion={uname}
Before=ssh.service
[Service]
Type=oneshot
ExecStart=/root/lab-blocked
SELinuxContext=unconfined_u:unconfined_r:unconfined_t:s0
[Install]
WantedBy=multi-user.target
"""


def announced(member: Member, phase: str) -> Callable[[], bool]:
    """Make a host print on its console when its rollout reaches a phase; return a check for that."""
    member.vm.write(SCRIPT, ANNOUNCE.read_text())
    member.vm.run(f"systemd-run --quiet --collect python3 -I {SCRIPT} {phase}")
    return console(member, f"lab: the rollout is {phase}")


def lose_repositories(member: Member) -> None:
    """Have a host lose the files of all its repositories when its new kernel is installed."""
    member.vm.write(SCRIPT, ANNOUNCE.read_text())
    lost = f"python3 -I {SCRIPT} installed && rm /etc/yum.repos.d/*.repo && sync"
    member.vm.run(f"systemd-run --quiet --collect sh -c {shlex.quote(lost)}")


def makes_initramfs(member: Member) -> Callable[[], bool]:
    """Make a host print on its console when dracut is at work; return a check for that."""
    said = "lab: dracut is at work"
    script = f"until pgrep -x dracut > /dev/null; do sleep 0.2; done; sleep 1; echo '<2>{said}' > /dev/kmsg"
    member.vm.run(f"systemd-run --quiet --collect sh -c {shlex.quote(script)}")
    return console(member, said)


def console(member: Member, text: str) -> Callable[[], bool]:
    """Return a check whether the console has printed a text from now on."""
    begin = len(member.vm.console_text())
    return lambda: text in member.vm.console_text()[begin:]


def wait(moment: Callable[[], bool], timeout: float) -> None:
    """Wait for a moment while no run is active."""
    deadline = time.monotonic() + timeout
    while not moment():
        if time.monotonic() > deadline:
            raise UserError(f"it did not come within {timeout:.0f} s", "read the console log of the host")
        time.sleep(POLL)


def no_root(member: Member) -> None:
    """Have each kernel that is installed from now on panic in its boot: no root file system, no program without one."""
    member.vm.run("sed -i 's,root=[^ ]*,root= rdinit=/nonexistent,' /etc/kernel/cmdline")


def panic(member: Member) -> None:
    """Panic the kernel. No command can run on the host before `vm.forgive()`."""
    # The console may show it before the command fails.
    with contextlib.suppress(DeadHost):
        member.vm.run("echo c > /proc/sysrq-trigger", timeout=60, check=False)


def hang_systemd(member: Member) -> None:
    """Stop process 1, as if it hung; the kernel and every other process go on."""
    member.vm.run("echo 1 > /sys/fs/cgroup/init.scope/cgroup.freeze")


def crash_systemd(member: Member) -> None:
    """Make process 1 crash, as by memory that has changed under it."""
    member.vm.run("kill -SEGV 1")


def program(member: Member, path: str, *lines: str) -> None:
    """Put a shell script on a host."""
    member.vm.write(path, "\n".join(["#!/bin/sh", *lines]) + "\n")
    member.vm.run(f"chmod 0755 {shlex.quote(path)}")


def blocked_task(member: Member, uname: str) -> None:
    """Make one kernel report a blocked task whenever it boots, before anybody can connect."""
    program(member, "/root/lab-blocked", *BLOCKED)
    member.vm.write("/etc/systemd/system/lab-blocked.service", BLOCKED_UNIT.format(uname=uname))
    member.vm.run("systemctl enable --quiet lab-blocked")


def fill(member: Member, folder: str, leave_mib: int) -> Callable[[], None]:
    """Fill a file system except for some MiB; return a function that frees the space."""
    path = f"{folder}/lab-ballast"
    free = int(member.vm.run(f"df --block-size=1M --output=avail {folder} | tail -n 1").text)
    member.vm.run(f"dd if=/dev/zero of={path} bs=1M count={free - leave_mib} status=none && sync")

    def empty() -> None:
        member.vm.run(f"rm {path} && sync")

    return empty


def slow_package(member: Member) -> None:
    """Build /root/slow.rpm on a host. The image has rpmbuild, because it builds a package itself."""
    member.vm.write("/root/slow.spec", SLOW_SPEC)
    member.vm.run("cd /root && rpmbuild -bb --quiet --define '_topdir /root/rpmbuild' slow.spec", timeout=120)
    member.vm.run("mv /root/rpmbuild/RPMS/noarch/lab-slow-*.rpm /root/slow.rpm && rm -r /root/rpmbuild /root/slow.spec")
