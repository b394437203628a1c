"""Measure what the lock of the deferred split queue costs processes of one cgroup that fault and unmap huge pages.

The base kernel with and without the series, from one configuration, boot in turns on the quick bench; each runs
thp_faults, whose first lines say what it does. What counts is the ratio between the two kernels of one round.
Contention needs processors that run at the same time. How much longer the work itself has become is counted apart from
that, in instructions of one process (qemu's -icount, where the guest's nanosecond is an instruction).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from scripts import kconfig, lock, prove, quickboot, series
from scripts.console import BUILD, ROOT, UserError, main, run_logged, say, step
from scripts.quickboot import Machine, Verdict

HERE = Path(__file__).resolve().parent
OUT = BUILD / "bench"
RESULTS = OUT / "contention.json"
CONFIG = HERE / "kernel.config"
PROGRAM = "thp_faults"
SELFTESTS = ROOT / "tests" / "selftests"
STOCK, THP = "stock", "thp"
# One node: both kernels have one lock for the cgroup then. Huge pages are cleared by plain stores, because emulation
# takes string instructions element by element, and nothing but clearing would be seen.
KERNEL_LINE = "clearcpuid=erms,rep_good"
# qemu chains no translated block that lies on two pages of code, which costs some 30 ns each time it runs. Where a
# function lies is chance, and in one of the kernels the loop over the tail pages of a freed huge page fell on two
# pages: 16 us for each huge page. Functions of that file therefore begin a page.
PLACEMENT = "CFLAGS_page_alloc.o=-falign-functions=4096"
RUNNING = Machine(cpus=2, kernel_line=KERNEL_LINE)
# The clock's frequency is told: it would be measured, less exactly than is needed to see a hundred instructions.
COUNTING = Machine(
    cpus=1,
    kernel_line=f"{KERNEL_LINE} tsc_early_khz=1000000",
    accel=("-accel", "tcg,thread=single,tb-size=512", "-cpu", "max", "-icount", "shift=0,sleep=off"),
)
# Without anybody else, the two tests count the same: how far they differ is how exact it is.
COUNTED = ("faults.1", "unmaps.1")
# More than any test takes in emulation.
TEST_LIMIT = 60.0
ROUNDS = 5
LINE = re.compile(r"^# (\w+\.\d+): (\d+) huge pages, ([\d.]+) /s, fault ([\d.]+) ns, unmap ([\d.]+) ns$")


@dataclass(frozen=True)
class Sample:
    """What one test measured: huge pages of all processes per second, processor time for each in nanoseconds."""

    thps: int
    rate: float
    fault_ns: float
    unmap_ns: float


@dataclass(frozen=True)
class Ratio:
    """Speed of kernel-thp divided by that of the stock kernel: 1 is the same, less is slower."""

    median: float
    least: float
    most: float


Samples = dict[str, Sample]
Round = dict[str, Samples]


# What is built


def configuration() -> Path:
    """Write the configuration both kernels are built from."""
    options = {**kconfig.parse(prove.CONFIG.read_text()), **kconfig.parse(CONFIG.read_text())}
    path = OUT / "kernel.config"
    path.write_text("".join(f"{option}={value}\n" for option, value in options.items()))
    return path


def build_kernel(tree: series.Tree, name: str, commit: str, config: Path) -> Path:
    """Return the kernel of a commit, which is built unless that has been done."""
    # HEAD would be that of the worktree itself.
    commit = tree.git("rev-parse", commit)
    source = tree.git("rev-parse", f"{commit}^{{tree}}")
    key = hashlib.sha256(f"{source}{config.read_text()}{PLACEMENT}".encode()).hexdigest()[:16]
    image = OUT / f"{name}-{key}"
    if not image.exists():
        for old in OUT.glob(f"{name}-*"):
            old.unlink()
        with step(f"build the {name} kernel"):
            tree.worktree(prove.SOURCE, commit)
            prove.build_image(f"bench-{name}", config, PLACEMENT).replace(image)
    return image


def build_program() -> Path:
    program = OUT / PROGRAM
    shared = [SELFTESTS / f"{name}.c" for name in ("thp_run", "thp_sysfs", "thp_memory")]
    command = ["gcc", "-static", "-O2", "-g", "-pthread", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-I", str(SELFTESTS)]
    command += ["-o", str(program), str(HERE / f"{PROGRAM}.c"), *map(str, shared)]
    run_logged(command, BUILD / "logs" / "bench-program.log", PROGRAM, "read the log; `make deps` installs a compiler")
    return program


# What is measured


def read_samples(lines: Sequence[str]) -> Samples:
    found = [match for match in map(LINE.match, lines) if match]
    return {match[1]: Sample(int(match[2]), float(match[3]), float(match[4]), float(match[5])) for match in found}


def accepted(verdicts: Mapping[str, Verdict], console: Path) -> Samples:
    """Return what the tests measured. A test that did not pass, or has no figures, is an error."""
    samples = read_samples(quickboot.outputs(console).get(PROGRAM, []))
    for test, verdict in verdicts.items():
        if verdict.verdict != "pass" or test not in samples:
            why = verdict.reason or "no line with figures"
            raise UserError(f"{test} measured nothing: {verdict.verdict}: {why}", f"read {console}")
    return {test: samples[test] for test in verdicts}


def measure(image: Path, base: Path, tests: Sequence[str], folder: Path, machine: Machine) -> Samples:
    verdicts = quickboot.run(image, base, {PROGRAM: tests}, folder, TEST_LIMIT * len(tests), machine)
    return accepted(verdicts, folder / quickboot.CONSOLE)


def speed(test: str, sample: Sample) -> float:
    """The figure a test is for: huge pages per second, of processor time where processes also wait for each other."""
    return sample.rate if test.startswith("faults.") else 1e9 / sample.unmap_ns


def ratio(test: str, rounds: Sequence[Round]) -> Ratio:
    each = [speed(test, done[THP][test]) / speed(test, done[STOCK][test]) for done in rounds]
    return Ratio(statistics.median(each), min(each), max(each))


def table(ratios: dict[str, Ratio], rounds: Sequence[Round]) -> str:
    lines = [f"{'test':10} {'stock':>11} {'thp':>11}   {'thp/stock':>9}  of {len(rounds)} rounds"]
    for test, found in ratios.items():
        stock, thp = (statistics.median(speed(test, done[name][test]) for done in rounds) for name in (STOCK, THP))
        spread = f"{found.least:.3f} to {found.most:.3f}"
        lines.append(f"{test:10} {stock:9.0f}/s {thp:9.0f}/s   {found.median:9.3f}  {spread}")
    return "\n".join(lines)


def path_table(counted: Round) -> str:
    lines = [f"{'test':10} {'instructions':>12} {'stock':>9} {'thp':>9} {'more':>7}  for each huge page"]
    for test in COUNTED:
        stock, thp = counted[STOCK][test], counted[THP][test]
        for what, before, after in (("fault", stock.fault_ns, thp.fault_ns), ("unmap", stock.unmap_ns, thp.unmap_ns)):
            lines.append(f"{test:10} {what:>12} {before:9.0f} {after:9.0f} {after - before:7.0f}")
    return "\n".join(lines)


def plain(done: Round) -> dict[str, dict[str, dict[str, float]]]:
    return {name: {test: asdict(sample) for test, sample in samples.items()} for name, samples in done.items()}


def write(version: str, rounds: Sequence[Round], ratios: dict[str, Ratio], counted: Round) -> None:
    found = {
        "base": version,
        "qemu": RUNNING.command(),
        "qemu_counting": COUNTING.command(),
        "ratios": {test: asdict(ratio) for test, ratio in ratios.items()},
        "counted": plain(counted),
        "rounds": [plain(done) for done in rounds],
    }
    part = RESULTS.with_suffix(".part")
    part.write_text(json.dumps(found, indent=2) + "\n")
    part.replace(RESULTS)


def at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of rounds; give 1 or more")
    return int(text)


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=at_least_one, default=ROUNDS, help=f"boots of each kernel; default {ROUNDS}")
    number = parser.parse_args().rounds
    source = lock.used()
    _, tree = series.place(source)
    if not tree.exists:
        raise UserError(f"there is no tree at {tree.folder}", "run `make tree`")
    OUT.mkdir(parents=True, exist_ok=True)
    config = configuration()
    images = {name: build_kernel(tree, name, commit, config) for name, commit in ((STOCK, "base"), (THP, "HEAD"))}
    program = build_program()
    base, tests = quickboot.base_archive([program], OUT), prove.listed(program)
    rounds: list[Round] = []
    for index in range(number):
        # Turn about, so that a machine that becomes slower or faster favours neither.
        names = [STOCK, THP] if index % 2 == 0 else [THP, STOCK]
        with step(f"round {index + 1} of {number}"):
            rounds.append({name: measure(images[name], base, tests, OUT / "boot" / name, RUNNING) for name in names})
    counted: Round = {}
    for name in (STOCK, THP):
        with step(f"count instructions, {name}"):
            counted[name] = measure(images[name], base, COUNTED, OUT / "boot" / f"{name}-count", COUNTING)
    ratios = {test: ratio(test, rounds) for test in tests}
    write(source.version, rounds, ratios, counted)
    print(f"{table(ratios, rounds)}\n\n{path_table(counted)}")
    say(f"contention: done; {RESULTS}")


if __name__ == "__main__":
    main(command)
