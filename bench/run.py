"""Measure kernel-thp beside the stock kernel and upstream's, and write the report: `make bench`.

Results are kept and reused while kernel, program and machine stay the same, so an interrupted run continues where it
stopped. Where time is measured, a round runs all kernels in turn and is kept or lost as a whole. Where instructions
are counted, other load makes no difference: each boot is kept by itself, and boots run in parallel, one per processor.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from bench import cases, kernels, plain_text, report, results, root, throttle
from bench.cases import CASES, COUNT, ROOT, SWAP, Case
from bench.guest import Guest
from bench.results import Boots
from scripts.arguments import at_least_one
from scripts.console import UserError, main, say, step

# What a machine needs beside its largest guest.
SPARE_MIB = 1024


@dataclass(frozen=True)
class Job:
    """The unit that is measured and kept: a round of a case, or one kernel's part of it."""

    case: Case
    round: int
    kernels: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.round}.{self.kernels[0]}" if self.case.machine == COUNT else str(self.round)

    def kept(self) -> Boots:
        return results.read(self.case.name, self.label)


def rounds_of(case: Case, quick: bool, rounds: int | None) -> int:
    """Return the number of rounds; `rounds` overrides it where time is measured."""
    number = case.quick if quick else case.rounds
    return rounds if rounds and number and case.machine != COUNT else number


def jobs(selected: Sequence[Case], quick: bool = False, rounds: int | None = None) -> list[Job]:
    """Return all jobs, round by round: a run that ends early has whole rounds of every case."""
    found = []
    for case in selected:
        for number in range(rounds_of(case, quick, rounds)):
            # Each kernel is first in turn: a machine that becomes slower or faster favours none of them.
            turn = number % len(case.kernels)
            order = case.kernels[turn:] + case.kernels[:turn]
            alone = case.machine == COUNT
            found += [Job(case, number, (name,)) for name in order] if alone else [Job(case, number, order)]
    return sorted(found, key=lambda job: (job.case.machine != COUNT, job.round))


def seconds(job: Job) -> float:
    """Return how long a job takes: as long as last time, or else as the table of cases estimates."""
    kept = job.kept() or next((boots for boots in map(Job.kept, siblings(job)) if boots), {})
    return sum(kept[name].seconds if name in kept else job.case.seconds for name in job.kernels)


def siblings(job: Job) -> list[Job]:
    return [Job(job.case, number, job.kernels) for number in range(job.case.rounds)]


def memory_mib() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20


def check_memory(pending: Sequence[Job]) -> None:
    """Refuse to start a guest that this machine has no room for."""
    for case in dict.fromkeys(job.case for job in pending):
        if case.memory_mib + SPARE_MIB > memory_mib():
            need = -(-(case.memory_mib + SPARE_MIB) // 1024)
            raise UserError(f"{case.name} needs a machine with {need} GiB of memory", "leave it out: ONLY=...")


def find_throttle(pending: Sequence[Job]) -> None:
    """Find the limits of the swap disk, before any results are looked up: they are for a disk with these limits."""
    if any(job.case.disk == SWAP for job in pending):
        throttle.find()


def workers(pending: Sequence[Job]) -> int:
    """Return how many guests of these jobs may run at once: one per processor, within half of the memory."""
    largest = max((job.case.memory_mib for job in pending), default=1)
    return max(1, min(os.cpu_count() or 1, memory_mib() // 2 // largest))


def total(pending: Sequence[Job]) -> float:
    counted = [job for job in pending if job.case.machine == COUNT]
    timed = [job for job in pending if job.case.machine != COUNT]
    return sum(map(seconds, counted)) / workers(counted) + sum(map(seconds, timed))


def plan(pending: Sequence[Job]) -> str:
    """Return a table of what would run, and for how long, if nothing had been measured yet."""
    lines = [f"{'case':24} {'machine':8} {'boots':>6} {'each':>7} {'all':>9}"]
    for case in dict.fromkeys(job.case for job in pending):
        own = [job for job in pending if job.case is case]
        boots = sum(len(job.kernels) for job in own)
        each = sum(map(seconds, own)) / boots
        lines.append(f"{case.name:24} {case.machine:8} {boots:6} {each:5.0f} s {total(own) / 60:5.1f} min")
    lines.append(f"{'':24} {'':8} {'':6} {'':7} {total(pending) / 60:5.1f} min, kernels and disks built before")
    return "\n".join(lines)


class Bench:
    """Measures, and knows which of the kept results are still valid."""

    def __init__(self) -> None:
        self.guests: dict[str, Guest] = {}
        self.stopped = False

    def guest(self, case: Case) -> Guest:
        if case.name not in self.guests:
            disk = root.path() if case.disk == ROOT else None
            self.guests[case.name] = Guest(case, disk, throttle.options() if case.disk == SWAP else "")
        return self.guests[case.name]

    def key(self, case: Case, kernel: str) -> str:
        return self.guest(case).key(kernels.find(kernel, case.thp_swap))

    def valid(self, job: Job) -> Boots:
        """Return the kept results of a job that are about the present kernels and programs."""
        boots = job.kept()
        same = set(boots) == set(job.kernels)
        return boots if same and all(boots[name].key == self.key(job.case, name) for name in boots) else {}

    def measured(self, job: Job) -> bool:
        boots = self.valid(job)
        return bool(boots) and all(boot.whole for boot in boots.values())

    def prepare(self, pending: Sequence[Job]) -> None:
        """Build everything the jobs need; nothing is built while measuring."""
        if any(job.case.disk == ROOT for job in pending):
            root.build()
        for job in pending:
            self.guest(job.case)
        # Both forms of a kernel in a row: they share nearly all objects, two kernels hardly any.
        for name, thp_swap in sorted({(name, job.case.thp_swap) for job in pending for name in job.kernels}):
            kernels.build(name, thp_swap)

    def measure(self, job: Job) -> None:
        with step(f"{job.case.name}, round {job.round + 1}: {', '.join(job.kernels)}"):
            guest = self.guest(job.case)
            found = {name: kernels.find(name, job.case.thp_swap) for name in job.kernels}
            boots = {name: guest.boot(kernel, job.label) for name, kernel in found.items()}
            if self.stopped and not all(boot.whole for boot in boots.values()):
                return  # An interrupt from the terminal ends qemu, too.
            results.write(job.case.name, job.label, boots)
        for name, boot in boots.items():
            for test, (verdict, reason) in boot.verdicts.items():
                if verdict not in ("pass", "skip"):
                    say(f"  {test} on {name}: {verdict}: {reason}")

    def run(self, pending: Sequence[Job]) -> None:
        self.prepare(pending)
        counted = [job for job in pending if job.case.machine == COUNT]
        with ThreadPoolExecutor(workers(counted)) as pool:
            try:
                for _ in pool.map(self.measure, counted):
                    pass
            except BaseException:
                self.stopped = True
                pool.shutdown(cancel_futures=True)
                raise
        for job in pending:
            if job not in counted:
                self.measure(job)

    def rounds(self, case: Case) -> list[Boots]:
        """Return the measured rounds of a case, each with its measured kernels."""
        found: dict[int, Boots] = {}
        for job in jobs([case], rounds=report.MOST_ROUNDS):
            boots = self.valid(job)
            if boots:
                found.setdefault(job.round, {}).update(boots)
        return list(found.values())


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--only", default="", help="cases whose names match this pattern; CASE:TEST for one test")
    which.add_argument(
        "--count", action="store_true", help="only the instruction counts of the packaged kernel, for `make check`"
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds and fewer cases")
    parser.add_argument("--rounds", type=at_least_one, help="number of rounds where time is measured")
    parser.add_argument("--force", action="store_true", help="measure again, whatever results are kept")
    parser.add_argument("--plan", action="store_true", help="print what would run, and for how long; run nothing")
    return parser.parse_args()


def selection(given: argparse.Namespace) -> list[Case]:
    if given.count:
        return cases.counted()
    return cases.chosen(given.only) if given.only else [case for case in CASES if not case.extra]


def command() -> None:
    given = arguments()
    selected = selection(given)
    # --only measures its cases in full, also with --quick.
    pending = jobs(selected, given.quick and not given.only, given.rounds)
    if given.plan:
        print(plan(pending))
        return
    check_memory(pending)
    find_throttle(pending)
    bench = Bench()
    left = [job for job in pending if given.force or not bench.measured(job)]
    say(f"bench: {len(pending) - len(left)} of {len(pending)} jobs are done, {total(left) / 60:.0f} minutes left")
    bench.run(left)
    gather: Callable[[Case], list[Boots]] = bench.rounds
    print(plain_text.terminal(report.gathered(selected, gather)))
    if given.count:
        report.write_counts(selected, gather)
    # One test is printed only; the report is about whole cases.
    elif ":" not in given.only:
        report.write(CASES, gather)
        say(f"bench: {report.PAGE}")
    failed = [job.case.name for job in pending if not bench.measured(job)]
    if failed:
        raise UserError(f"some tests were not measured: {', '.join(sorted(set(failed)))}", "their reasons are above")


if __name__ == "__main__":
    main(command)
