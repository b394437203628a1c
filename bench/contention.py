"""Measure what the lock of the deferred split queue costs processes of one cgroup that fault and unmap huge pages.

The base kernel with and without the series, from one configuration, boot in turns on the quick bench; each runs
thp_faults, whose first lines say what it does. What counts is the ratio between the two kernels of one round.
Contention needs processors that run at the same time. How much longer the work itself has become is counted apart from
that, in instructions of one process (qemu's -icount, where the guest's nanosecond is an instruction).
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench import binaries, kernels
from bench.guest import COUNTING, RUNNING
from bench.kernels import OUT, STOCK, THP
from lab import direct_boot
from lab.direct_boot import Machine
from scripts.console import UserError, main, say, step
from tests.verdicts import Verdict, read_console

RESULTS = OUT / "contention.json"
PROGRAM = "thp_faults"
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


# What is measured


def read_samples(lines: Sequence[str]) -> Samples:
    found = [match for match in map(LINE.match, lines) if match]
    return {match[1]: Sample(int(match[2]), float(match[3]), float(match[4]), float(match[5])) for match in found}


def accepted(verdicts: Mapping[str, Verdict], console: Path) -> Samples:
    """Return what the tests measured. A test that did not pass, or has no figures, is an error."""
    samples = read_samples(direct_boot.outputs(console).get(PROGRAM, []))
    for test, verdict in verdicts.items():
        if verdict.verdict != "pass" or test not in samples:
            why = verdict.reason or "no line with figures"
            raise UserError(f"{test} measured nothing: {verdict.verdict}: {why}", f"read {console}")
    return {test: samples[test] for test in verdicts}


def measure(image: Path, base: Path, tests: Sequence[str], folder: Path, machine: Machine) -> Samples:
    todo = {PROGRAM: tests}
    console = direct_boot.run(image, base, todo, folder, TEST_LIMIT * len(tests), machine)
    return accepted(read_console(console, todo), console)


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
    images = {name: kernels.build(name).image for name in (STOCK, THP)}
    (base, _), tests = binaries.archive(PROGRAM), binaries.listed(PROGRAM)
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
    write(kernels.find(STOCK).version, rounds, ratios, counted)
    print(f"{table(ratios, rounds)}\n\n{path_table(counted)}")
    say(f"contention: done; {RESULTS}")


if __name__ == "__main__":
    main(command)
