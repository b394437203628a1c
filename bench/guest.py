"""Boot a kernel directly for one case, and read the figures that its program prints."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import subprocess
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from bench import binaries
from bench.cases import COUNT, ROOT, SWAP, WALL, Case
from bench.kernels import OUT, Kernel
from bench.results import Boot, Figure, Figures
from lab import direct_boot
from lab.accel import QEMU, TCG
from lab.direct_boot import Machine
from tests.verdicts import Verdict, read_console

# One NUMA node: every kernel then has one lock for a cgroup's queue. Without these features a kernel clears huge pages
# with plain stores. qemu emulates string instructions element by element, and clearing would hide everything else.
# Linux 6.12 checks two more features than 6.1; the second one, FSRS, is given by its number.
KERNEL_LINE = "clearcpuid=erms,rep_good,fsrm,395"
# Emulated even where there is KVM: the stored ratios come from emulation, and the report says what emulation shows.
TIMING = Machine(cpus=2, kernel_line=KERNEL_LINE, accel=tuple(TCG))
# A nanosecond of this machine is an instruction. The command line gives the kernel the clock's frequency, because the
# kernel's own measurement is too inexact to see a hundred instructions.
COUNTING = Machine(
    cpus=1,
    kernel_line=f"{KERNEL_LINE} tsc_early_khz=1000000",
    accel=("-accel", "tcg,thread=single,tb-size=512", "-cpu", "max", "-icount", "shift=0,sleep=off"),
)
MACHINES = {WALL: TIMING, COUNT: COUNTING}
DEVICE = "/dev/vda"
SWAP_MIB = 512
# The time limit of a case: this many times its estimate, and at least two minutes.
PATIENCE, LEAST = 5.0, 120.0
FIGURE = re.compile(r"^# (\S+): (\S+) (-?\d+(?:\.\d+)?) (ns|s|bytes|pages|thps|count|share)$")
# Runs another program, and prints in which functions the kernel was meanwhile.
SAMPLER = "bench_symbols"
SAMPLES = re.compile(r"^# symbol (\S+) (\d+)$")


def read_figures(lines: Iterable[str]) -> Figures:
    found: Figures = {}
    for match in filter(None, map(FIGURE.match, lines)):
        found.setdefault(match[1], {})[match[2]] = Figure(float(match[3]), match[4])
    return found


def read_samples(lines: Iterable[str]) -> dict[str, Figure]:
    """Return how many samples fell into each function of the kernel."""
    return {match[1]: Figure(float(match[2]), "samples") for match in filter(None, map(SAMPLES.match, lines))}


@functools.cache
def qemu_version() -> str:
    done = subprocess.run([QEMU, "--version"], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()[0]


def machine_of(case: Case, folder: Path, root: Path | None = None, throttle: str = "", line: str = "") -> Machine:
    """Return the machine of a case.

    `root` is the disk with the distribution, `throttle` what limits the swap disk, `line` the kernel's own words.
    """
    machine = MACHINES[case.machine]
    words = [machine.kernel_line, *(f"{name}={value}" for name, value in case.variables), *line.split()]
    devices: tuple[str, ...] = ()
    if case.disk:
        swap = (folder / "swap.img", f"cache=unsafe,{throttle}" if throttle else "cache=unsafe")
        disk, mode = (root, "readonly=on") if case.disk == ROOT else swap
        devices = ("-drive", f"if=none,id=disk,format=raw,{mode},file={disk}", "-device", "virtio-blk-pci,drive=disk")
        words.append(f"BENCH_DISK={DEVICE}")
    return dataclasses.replace(machine, kernel_line=" ".join(words), devices=devices, memory_mib=case.memory_mib)


def make_swap(disk: Path) -> None:
    """Write all of it once: the first write to a block of a file costs extra, and that cost is unevenly spread."""
    with disk.open("wb") as handle:
        for _ in range(SWAP_MIB):
            handle.write(bytes(1 << 20))


class Guest:
    """One case, with everything its boots share."""

    def __init__(self, case: Case, root: Path | None = None, throttle: str = "") -> None:
        self.case = case
        self.root = root
        self.throttle = throttle
        self.base, self.mark = binaries.archive(case.binary)

    def key(self, kernel: Kernel) -> str:
        """Return a key of what is measured: kernel, program and machine, regardless of where their files are."""
        machine = machine_of(self.case, Path(), Path(self.root.name) if self.root else None, self.throttle)
        parts = [kernel.key, self.mark, qemu_version(), *machine.command(), self.case.program, *self.case.tests]
        if self.case.disk == SWAP:
            parts.append(f"{SWAP_MIB} MiB, written once")
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def boot(self, kernel: Kernel, label: str) -> Boot:
        """Measure all tests once. The console's log stays in a directory named after case, label and kernel."""
        folder = OUT / "boot" / self.case.name / label / kernel.name
        folder.mkdir(parents=True, exist_ok=True)
        machine = machine_of(self.case, folder, self.root, self.throttle, kernel.line)
        if self.case.disk == SWAP:
            make_swap(folder / "swap.img")
        began = time.monotonic()
        limit = max(LEAST, PATIENCE * self.case.seconds)
        tests = {self.case.program: self.case.tests}
        verdicts = read_console(direct_boot.run(kernel.image, self.base, tests, folder, limit, machine), tests)
        seconds = time.monotonic() - began
        for name in ("swap.img", "initrd.gz"):
            (folder / name).unlink(missing_ok=True)
        printed = direct_boot.outputs(folder / direct_boot.CONSOLE).get(self.case.binary, [])
        figures = read_figures(printed)
        if self.case.binary == SAMPLER:
            figures = {test: read_samples(printed) for test in self.case.tests}
        return accepted(self.key(kernel), seconds, verdicts, figures)


def accepted(key: str, seconds: float, verdicts: Mapping[str, Verdict], figures: Figures) -> Boot:
    """Return the figures of tests that passed. A test that passed without figures has failed."""
    results = {test: (verdict.verdict, verdict.reason) for test, verdict in verdicts.items()}
    passed = {test: figures[test] for test in results if results[test][0] == "pass" and test in figures}
    for test in results:
        if results[test][0] == "pass" and test not in passed:
            results[test] = ("fail", "it printed no figures")
    return Boot(key, seconds, results, passed)
