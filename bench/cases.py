"""What is measured: one line for each program and each kind of machine and kernel it runs on."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from bench.kernels import NAMES, STOCK, THP, UPSTREAM
from bench.programs.measure import MODES
from scripts.console import UserError

# `wall`: two processors, time. `count`: one processor, instructions. `native`: this machine itself, without a guest.
WALL, COUNT, NATIVE = "wall", "count", "native"
# A disk to swap to, or one with a distribution on it.
SWAP, ROOT = "swap", "root"
LIVE = ("best", "worst", *(f"live_{pages}" for pages in (1, 16, 64, 102, 103, 256, 512)))
JUDGED = ("sparse_1", "sparse_40", "sparse_102", "dense_103", "dense_256", "dense_512", "dense_512_last")
LIMITS = (0, 128, 256, 384, 409, 430, 450, 460, 465, 470, 471, 472, 480, 490, 500, 511)
FRAGMENTED = (
    *("thp_fault_alloc", "thp_fault_fallback", "polluted", "stolen", "blocks_mixed", "blocks_hostage"),
    *("compact_stall", "probe", "fault_time"),
)
# Instructions are counted one by one, so there are fewer to count.
SMALLER = (("BENCH_MIB", "16"),)
# A fifth of memory is wanted in huge pages: less would be had from the same blocks again and again.
FRAGMENTING = (("BENCH_ROUNDS", "2"), ("BENCH_MIB", "192"))
PAIRS = ((THP, STOCK), (THP, UPSTREAM))


@dataclass(frozen=True)
class Case:
    """A boot of each kernel, in each round. `seconds` is a guess of how long a boot takes, until one has been timed."""

    name: str
    title: str
    program: str
    tests: tuple[str, ...]
    seconds: float
    # What is shown first, and in the plots.
    figures: tuple[str, ...]
    # What fails `make bench-check` when it rises. Not times of a few milliseconds, which scatter and are counted, too.
    guard: tuple[str, ...] = ()
    machine: str = WALL
    kernels: tuple[str, ...] = NAMES
    pairs: tuple[tuple[str, str], ...] = PAIRS
    thp_swap: bool = True
    disk: str = ""
    rounds: int = 5
    # With QUICK=1.
    quick: int = 1
    # Only when it is asked for by name.
    extra: bool = False
    memory_mib: int = 2048
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def binary(self) -> str:
        """Return the program without the words it is started with."""
        return self.program.partition(" ")[0]

    def alone(self, test: str) -> Case:
        """Return the case with one test only."""
        if test not in self.tests:
            raise UserError(f"{self.name} has no test {test}", f"it has {', '.join(self.tests)}")
        return dataclasses.replace(self, name=f"{self.name}:{test}", tests=(test,))


def times(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}_time" for name in names)


def processor(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}_cpu" for name in names)


def each(tests: Sequence[str], *kinds: str) -> tuple[str, ...]:
    return tuple(f"{test}.{kind}" for kind in kinds for test in tests)


def zero_drop(*, thp_swap: bool, machine: str = WALL) -> Case:
    """Return the case in which sparse huge pages are paged out, split or not, counted or timed."""
    what = "Sparse huge pages are paged out, " + ("whole where that is possible" if thp_swap else "split")
    timed = Case(
        name=f"zero_drop.{'whole' if thp_swap else 'split'}",
        title=f"{what}: time, and what is written",
        program="bench_zero_drop",
        tests=each(LIVE, "zram", "disk"),
        seconds=6,
        figures=(*times("pageout", "on_disk", "munmap"), "written", "stored", "rss"),
        guard=(*times("pageout"), "written", "stored"),
        thp_swap=thp_swap,
        disk=SWAP,
        quick=0 if thp_swap else 1,
    )
    if machine == WALL:
        return timed
    return dataclasses.replace(
        timed,
        name=f"{timed.name}.count",
        title=f"{what}: instructions",
        tests=each(LIVE, "zram"),
        seconds=11,
        figures=processor("pageout", "munmap"),
        guard=processor("pageout", "munmap"),
        machine=machine,
        disk="",
        rounds=2,
        variables=SMALLER,
    )


def symbols(
    name: str, program: str, test: str, mib: int, kernels: tuple[str, ...] = NAMES, thp_swap: bool = True
) -> Case:
    """Return the case in which samples are taken of what another one measures, in memory enough for hundreds."""
    return Case(
        name=f"symbols.{name}",
        title=f"Functions of the kernel in which {test} spends instructions: samples",
        program=f"bench_symbols {program}",
        tests=(test,),
        seconds=11,
        figures=(),
        machine=COUNT,
        kernels=kernels,
        pairs=tuple(pair for pair in PAIRS if set(pair) <= set(kernels)),
        thp_swap=thp_swap,
        rounds=1,
        quick=0,
        variables=(("BENCH_MIB", str(mib)),),
    )


CASES = (
    zero_drop(thp_swap=False, machine=COUNT),
    zero_drop(thp_swap=True, machine=COUNT),
    Case(
        name="shrink.count",
        title="Sparse huge pages are given back, dense ones judged: instructions",
        program="bench_shrink",
        tests=(*JUDGED, "dense_512_anywhere", "reclaim_40"),
        seconds=10,
        figures=(*processor("per_thp", "reclaim"), "freed_by_cpu"),
        guard=processor("per_thp"),
        machine=COUNT,
        rounds=2,
        variables=SMALLER,
    ),
    Case(
        name="fault.count",
        title="A huge page is faulted in and freed: instructions",
        program="bench_fault",
        tests=("fault_1",),
        seconds=10,
        figures=("fault_net", "free", "fault", "clear"),
        guard=("fault_net", "free"),
        machine=COUNT,
        rounds=2,
        variables=SMALLER,
    ),
    zero_drop(thp_swap=False),
    zero_drop(thp_swap=True),
    Case(
        name="shrink",
        title="Sparse huge pages are given back, dense ones judged: time",
        program="bench_shrink",
        tests=(*JUDGED, "dense_512_anywhere", "reclaim_40"),
        seconds=2,
        figures=(*times("per_thp", "reclaim"), "freed_by_cpu", "given_back"),
    ),
    Case(
        name="fault",
        title="A huge page is faulted in and freed, by one and by two threads: processor time",
        program="bench_fault",
        tests=("fault_1", "fault_2"),
        seconds=2,
        figures=("fault_net", "free", "fault", "clear"),
        guard=("fault", "free"),
    ),
    Case(
        name="oom",
        title="A program that needs twice its limit unless zero pages are given back",
        program="bench_oom",
        tests=tuple(f"oom_{limit}" for limit in LIMITS),
        seconds=2,
        figures=("survived", "rss_peak", "thps"),
        rounds=2,
    ),
    Case(
        name="swapin",
        title="Huge pages are paged out whole and touched again",
        program="bench_swapin",
        tests=each(("swapin_sequential", "swapin_random", "swapin_few"), "zram", "disk"),
        seconds=6,
        figures=(*times("touch", "pageout"), "faults", "read", "huge", "rss"),
        guard=times("touch", "pageout"),
        disk=SWAP,
        quick=0,
    ),
    Case(
        name="fragment.madvise",
        title="Huge pages that are asked for, in memory that gets fragmented",
        program="bench_fragment",
        tests=("fragment_madvise",),
        seconds=13,
        figures=FRAGMENTED,
        memory_mib=1024,
        variables=FRAGMENTING,
        quick=0,
    ),
    Case(
        name="fragment.always",
        title="Huge pages that are not asked for, in memory that gets fragmented",
        program="bench_fragment",
        tests=("fragment_always",),
        seconds=13,
        figures=FRAGMENTED,
        memory_mib=1024,
        variables=FRAGMENTING,
        extra=True,
    ),
    Case(
        name="programs",
        title="Programs with sparse heaps",
        program="programs",
        tests=each(("redis", "java", "python", "mix"), *MODES),
        seconds=21,
        figures=("rss", "huge", "rss_left", "kept", "wasted", "peak", "pressure", "killed", "work"),
        disk=ROOT,
    ),
    Case(
        name="zero_check",
        title="The check for zeros by itself, on this machine and not in a guest",
        program="zero_check",
        tests=("4_KiB", "2048_KiB", "262144_KiB"),
        seconds=2,
        figures=("rate",),
        machine=NATIVE,
        kernels=("patch", "memchr_inv", "sum", "copy"),
        pairs=(("patch", "memchr_inv"), ("patch", "sum")),
        rounds=3,
    ),
    symbols("sparse", "bench_shrink", "sparse_40", 16, kernels=(THP, UPSTREAM)),
    symbols("dense", "bench_shrink", "dense_512", 256, kernels=(THP, UPSTREAM)),
    symbols("fault", "bench_fault", "fault_1", 64),
    symbols("worst", "bench_zero_drop", "worst.zram", 16, thp_swap=False),
)


def chosen(pattern: str, cases: Sequence[Case] = CASES) -> list[Case]:
    """Return the cases whose names fit a pattern, or `CASE:TEST`, one test of a case."""
    name, _, test = pattern.partition(":")
    found = [case for case in cases if fnmatch.fnmatchcase(case.name, name)]
    if not found:
        raise UserError(f"no case is called {name}", f"there are {', '.join(case.name for case in cases)}")
    return [case.alone(test) for case in found] if test else found


def command(case: Case, test: str) -> str:
    """Return the command that measures one test again, and nothing else."""
    name = case.name.partition(":")[0]
    return f"make bench ONLY={name}{f':{test}' if test else ''} ANEW=1"
