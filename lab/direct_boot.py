"""Boot a kernel image with an initramfs of selftests: a direct boot, for mutation tests and measurements.

It has no firmware, no boot loader, no disk and no distribution, so its result is not a verdict on a package.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.accel import QEMU, accelerator
from lab.splats import fatal
from scripts.console import HEARTBEAT, UserError, say, tail

HERE = Path(__file__).resolve().parent
INIT = HERE / "direct-boot-init"
# On top of allnoconfig.
CONFIG = HERE / "direct-boot.config"
CONSOLE = "console.log"
BOOT_LIMIT = 120.0
DEVICES = ("-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio")
KERNEL_LINE = "console=ttyS0 quiet panic=-1"
PROGRAM = re.compile(r"^### (\S+)$")


@dataclass(frozen=True)
class Machine:
    """The hardware of a boot; `accel` are qemu's options, by default those for the best accelerator.

    Words of `kernel_line` like NAME=VALUE that the kernel does not know become the programs' environment.
    """

    cpus: int = 2
    kernel_line: str = "numa=fake=2"
    accel: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    memory_mib: int = 2048

    def command(self) -> list[str]:
        size = ("-m", str(self.memory_mib), "-smp", str(self.cpus))
        qemu = [QEMU, *(self.accel or accelerator()), *size, *DEVICES, *self.devices]
        return [*qemu, "-append", f"{KERNEL_LINE} {self.kernel_line}"]


TWO_NODES = Machine()


def archive(folder: Path, out: Path) -> None:
    """Pack a directory into an initramfs."""
    names = "\n".join(str(path.relative_to(folder)) for path in sorted(folder.rglob("*")))
    with out.open("wb") as handle:
        packer = subprocess.Popen(["gzip", "-1", "-n"], stdin=subprocess.PIPE, stdout=handle)
        cpio = ["cpio", "--quiet", "-o", "-H", "newc", "-R", "0:0"]
        subprocess.run(cpio, cwd=folder, input=names.encode(), stdout=packer.stdin, check=True)
        packer.communicate()
        if packer.returncode:
            raise subprocess.CalledProcessError(packer.returncode, "gzip")


def base_archive(programs: Sequence[Path], folder: Path) -> Path:
    """Make the part of the initramfs that all boots share."""
    busybox = shutil.which("busybox")
    if not busybox:
        raise UserError("there is no busybox, the shell of a direct boot", "run `make deps`")
    root = folder / "initramfs"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "dev", "proc", "sys", "tests", "tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(busybox, root / "bin" / "busybox")
    (root / "bin" / "sh").symlink_to("busybox")
    shutil.copy(INIT, root / "init")
    for program in programs:
        shutil.copy(program, root / "tests" / program.name)
    out = folder / "initramfs.gz"
    archive(root, out)
    return out


def console_lines(console: Path) -> list[str]:
    return console.read_text(errors="replace").replace("\r", "").splitlines()


def outputs(console: Path) -> dict[str, list[str]]:
    """Return what each program printed."""
    found: dict[str, list[str]] = {}
    program = ""
    for line in console_lines(console):
        match = PROGRAM.match(line)
        if match:
            program = "" if match[1] == "ended" else match[1]
        elif program:
            found.setdefault(program, []).append(line)
    return found


def why_dead(console: Path) -> str | None:
    """Return the line that says the kernel is dead, if there is one."""
    return fatal("\n".join(console_lines(console)))


def run(
    image: Path,
    base: Path,
    plan: Mapping[str, Sequence[str]],
    folder: Path,
    limit: float,
    machine: Machine = TWO_NODES,
) -> Path:
    """Boot the image, run the programs of `plan` with their tests, and return the console's log."""
    work = folder / "plan"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    (work / "plan").write_text("".join(f"{name} {' '.join(tests)}\n" for name, tests in plan.items()))
    archive(work, folder / "plan.gz")
    initrd, console = folder / "initrd.gz", folder / CONSOLE
    initrd.write_bytes(base.read_bytes() + (folder / "plan.gz").read_bytes())
    command = ["setpriv", "--pdeathsig", "KILL", *machine.command(), "-kernel", str(image), "-initrd", str(initrd)]
    end = time.monotonic() + BOOT_LIMIT + limit
    with console.open("wb") as log:
        qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        try:
            while qemu.poll() is None and time.monotonic() < end:
                try:
                    qemu.wait(min(HEARTBEAT, max(0.1, end - time.monotonic())))
                except subprocess.TimeoutExpired:
                    say(f"  {(tail(console, 1) or ['booting'])[0].strip()[:100]}")
        finally:
            qemu.kill()
            qemu.wait()
            initrd.unlink()  # as large as all programs
    return console


def listed(program: Path) -> list[str]:
    """Return the tests of a program."""
    return subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True).stdout.split()
