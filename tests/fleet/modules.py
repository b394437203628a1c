"""A module whose kernel oopses or locks up when it is loaded: no interface of that kernel does so on request."""

from __future__ import annotations

import base64
import contextlib
import subprocess
from pathlib import Path

from lab import repo
from lab.vm import DeadHost
from scripts.console import run_logged
from scripts.flavours import CLOUD
from tests.fleet.hosts import Member
from tests.fleet.releases import Release

SOURCE = """\
#include <linux/module.h>
static int __init lab(void)
{
	%s
	return 0;
}
module_init(lab);
MODULE_LICENSE("GPL");
"""
OOPS = "WRITE_ONCE(*(int *)NULL, 1);"
# The processor takes interrupts, and schedules nothing any more.
LOCKUP = "preempt_disable(); for (;;) cpu_relax();"
# Not in /root: SELinux does not let insmod look there.
MODULE = "/var/tmp/lab_fault.ko"


def build(release: Release, folder: Path, fault: str) -> Path:
    """Compile it against the package for that."""
    folder.mkdir(parents=True)
    package = repo.REPO / f"{CLOUD.package}-devel-{release.version}.x86_64.rpm"
    with subprocess.Popen(["rpm2cpio", str(package)], stdout=subprocess.PIPE) as content:
        subprocess.run(["cpio", "-id", "--quiet"], cwd=folder, stdin=content.stdout, check=True)
    (folder / "lab_fault.c").write_text(SOURCE % fault)
    (folder / "Makefile").write_text("obj-m := lab_fault.o\n")
    devel = folder / "usr" / "src" / "kernels" / release.uname
    command = ["make", "-C", str(devel), f"M={folder}", "modules"]
    run_logged(command, folder / "make.log", "make", "read the log")
    return folder / "lab_fault.ko"


def send(member: Member, module: Path) -> None:
    """Put it on the host, for its next boot as well; SELinux takes modules only from files of their type."""
    member.vm.run(f"base64 -d > {MODULE}", stdin=base64.b64encode(module.read_bytes()).decode())
    member.vm.run(f"selinuxenabled && chcon -t modules_object_t {MODULE} || true")


def oops(member: Member) -> None:
    """Load it. If the oops is a panic, no command can run on the host before `vm.forgive()`."""
    with contextlib.suppress(DeadHost):
        said = member.vm.run(f"insmod {MODULE}", timeout=60, check=False)
        assert said.code != 1, f"the module is refused, which is no oops: {said.text}"


def lock_up(member: Member) -> None:
    """Load it in the background and a little later: it never returns, nor does anything else on that processor."""
    with contextlib.suppress(DeadHost):
        member.vm.run(f"systemd-run --quiet --collect sh -c 'sleep 2; insmod {MODULE}'", timeout=60, check=False)
