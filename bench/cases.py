"""What is measured: one line for each program and each kind of machine and kernel it runs on."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from bench.kernels import (
    ADVISED,
    ALWAYS,
    BEFORE,
    DEFRAG,
    NAMES,
    NEWEST,
    NEWEST_DEFRAG,
    PACKAGED,
    STEPS,
    STOCK,
    THP,
    UPSTREAM,
)
from bench.programs.measure import MODES
from scripts.console import UserError

# `wall`: two processors, time. `count`: one processor, instructions.
WALL, COUNT = "wall", "count"
# A disk to swap to, or one with a distribution on it.
SWAP, ROOT = "swap", "root"
BEST_ZRAM, BEST_DISK = "best.zram", "best.disk"
LIVE = ("best", "worst", *(f"live_{pages}" for pages in (1, 16, 64, 102, 103, 256, 512)))
CHECKED = ("sparse_1", "sparse_40", "sparse_102", "dense_103", "dense_256", "dense_512", "dense_512_last")
THRESHOLDS = (0, 128, 256, 384, 409, 430, 450, 460, 465, 470, 471, 472, 480, 490, 500, 511)
FRAGMENTED = (
    *("failed", "slope", "polluted", "stolen", "probed", "fault_time", "own", "work"),
    *("pgsteal_direct", "pgsteal_kswapd", "compact_migrate_scanned", "compact_daemon_migrate_scanned"),
    *("pswpout", "workingset_refault_file", "oom_kill", "quiet"),
)
# In its mode for whole blocks, each kernel that has one is beside itself without it. 6.12 has none.
FRAGMENTING = (STOCK, THP, DEFRAG, NEWEST, NEWEST_DEFRAG)
FRAGMENT_ROUNDS, FRAGMENT_SECONDS = 15, 10
# kernel-thp by what swapin_enabled says; 7.3 and 6.12 have no such policy.
SWAPPING = (STOCK, THP, ADVISED, ALWAYS, UPSTREAM, NEWEST)
SWAPPED_IN = (
    *("swapin_sequential", "swapin_random", "swapin_touched_1", "swapin_touched_8", "swapin_touched_64"),
    *("swapin_unadvised", "swapin_thrash"),
)
SMALL = ("anonymous", "files", "pipes")
# Counting instructions is slow, so these cases work on less memory.
SMALLER = (("BENCH_MIB", "16"),)
# Huge pages that stay, and who reclaims past them: one process, or four at once.
KINDS = ("pinned", "mlocked", "used")
QUEUE_FIGURES = ("growth", "given_back", "split", "refused")
QUEUED = tuple(f"{what}_{kind}" for what in ("pass", "reclaim", "four") for kind in KINDS)
PAIRS = ((THP, STOCK), (THP, UPSTREAM))


@dataclass(frozen=True)
class Case:
    """A boot of each kernel in each round. `seconds` estimates how long a boot takes until one has been timed."""

    name: str
    title: str
    program: str
    tests: tuple[str, ...]
    seconds: float
    # Shown first, and plotted.
    figures: tuple[str, ...]
    # `make bench-check` fails when one of these rises. Times of a few milliseconds scatter too much to be guarded; the
    # `count` cases guard their instructions instead.
    guard: tuple[str, ...] = ()
    machine: str = WALL
    kernels: tuple[str, ...] = NAMES
    pairs: tuple[tuple[str, str], ...] = PAIRS
    thp_swap: bool = True
    disk: str = ""
    rounds: int = 5
    # Rounds with QUICK=1.
    quick: int = 1
    # Runs only when ONLY names it.
    extra: bool = False
    memory_mib: int = 2048
    variables: tuple[tuple[str, str], ...] = ()

    @property
    def binary(self) -> str:
        """Return the program without its arguments."""
        return self.program.partition(" ")[0]

    def alone(self, test: str) -> Case:
        """Return this case reduced to one test."""
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
    """Return the case that pages out sparse huge pages: split or whole, counted or timed."""
    what = "Sparse huge pages are paged out, " + ("whole where possible, as shipped" if thp_swap else "always split")
    timed = Case(
        name=f"zero_drop.{'whole' if thp_swap else 'split'}",
        title=f"{what}: time and pages written",
        program="bench_zero_drop",
        tests=each(LIVE, "zram", "disk"),
        seconds=14,
        figures=(*times("pageout", "on_disk", "munmap"), "over_zram", "written", "stored", "rss"),
        guard=(*times("pageout", "on_disk"), "written", "stored"),
        thp_swap=thp_swap,
        disk=SWAP,
        quick=1 if thp_swap else 0,
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


def swapin(machine: str) -> Case:
    """Return the case that pages huge pages out whole and touches them again: timed, or counted where nobody waits."""
    timed = Case(
        name="swapin",
        title="Huge pages are paged out whole and touched again: time",
        program="bench_swapin",
        tests=each(SWAPPED_IN, "zram", "ram", "disk"),
        seconds=26,
        figures=(*times("touch", "pageout"), "faults", "read", "huge_share", "huge", "rss"),
        kernels=SWAPPING,
        pairs=((THP, STOCK), (ALWAYS, STOCK), (ADVISED, STOCK), (ALWAYS, UPSTREAM)),
        disk=SWAP,
        extra=True,
    )
    if machine == WALL:
        return timed
    return dataclasses.replace(
        timed,
        name="swapin.count",
        title="Huge pages are paged out whole and touched again: instructions",
        tests=each(SWAPPED_IN[:-1], "zram", "ram"),
        seconds=17,
        figures=processor("touch", "pageout"),
        guard=processor("touch", "pageout"),
        machine=machine,
        disk="",
        rounds=2,
        quick=0,
        extra=False,
        variables=SMALLER,
    )


# How huge pages are asked for, by the second word of a case's name.
ASKED = {
    "madvise": "with MADV_HUGEPAGE",
    "always": "with enabled=always and defrag=madvise, for which the kernel does nothing",
    "defer": "with enabled=always and defrag=defer+madvise, for which it works in the background",
}


def fragment(name: str, memory_mib: int, kernels: tuple[str, ...] = FRAGMENTING) -> Case:
    """Return a case that fragments memory for some minutes, and wants a thirtieth of it in huge pages at a time."""
    kind = name.split(".")[1]
    burst = memory_mib // 32
    return Case(
        name=name,
        title=f"Faults {ASKED[kind]} while {memory_mib // 1024} GiB of memory become fragmented",
        program="bench_fragment",
        tests=(f"fragment_{kind}",),
        seconds=FRAGMENT_ROUNDS * FRAGMENT_SECONDS + 20,
        figures=FRAGMENTED,
        kernels=kernels,
        pairs=tuple((DEFRAG, other) for other in (STOCK, NEWEST_DEFRAG, THP) if other in kernels),
        memory_mib=memory_mib,
        variables=(
            *(("BENCH_ROUNDS", str(FRAGMENT_ROUNDS)), ("BENCH_SECONDS", str(FRAGMENT_SECONDS))),
            ("BENCH_MIB", str(burst)),
        ),
        quick=0,
        extra=True,
    )


def modes(name: str, what: str, program: str, tests: tuple[str, ...], figures: tuple[str, ...]) -> Case:
    """Return a case that counts what the patches of defrag mode cost, with the mode off and on."""
    return Case(
        name=name,
        title=f"{what}, without defrag mode, and with it off and on: instructions",
        program=program,
        tests=tests,
        seconds=10,
        figures=figures,
        machine=COUNT,
        kernels=(BEFORE, THP, DEFRAG),
        pairs=((THP, BEFORE), (DEFRAG, BEFORE)),
        rounds=2,
        extra=True,
        variables=SMALLER,
    )


def pairs_of(kernels: Sequence[str]) -> tuple[tuple[str, str], ...]:
    return tuple(pair for pair in PAIRS if set(pair) <= set(kernels))


def symbols(
    name: str, program: str, test: str, mib: int, kernels: tuple[str, ...] = NAMES, thp_swap: bool = True
) -> Case:
    """Return the case that samples a test of another case, on enough memory for hundreds of samples."""
    return Case(
        name=f"symbols.{name}",
        title=f"Kernel functions in which {test} spends its instructions: samples",
        program=f"bench_symbols {program}",
        tests=(test,),
        seconds=11,
        figures=(),
        machine=COUNT,
        kernels=kernels,
        pairs=pairs_of(kernels),
        thp_swap=thp_swap,
        rounds=1,
        quick=0,
        variables=(("BENCH_MIB", str(mib)),),
    )


def queue(*, machine: str) -> Case:
    """Return the case of long queues in one cgroup: counted or timed."""
    counted = machine == COUNT
    return Case(
        name="queue.count" if counted else "queue",
        title="Reclaim past 600 and 6,000 huge pages that stay: " + ("instructions" if counted else "time"),
        program="bench_queue",
        tests=QUEUED,
        seconds=240,
        figures=(*(processor if counted else times)("few", "many", "again", "reclaim_few", "reclaim"), *QUEUE_FIGURES),
        machine=machine,
        rounds=1 if counted else 3,
        extra=True,
        memory_mib=14336,
        variables=(("BENCH_MIB", "12000"),),
    )


def queue_cgroups(*, machine: str) -> Case:
    """Return the case of many cgroups with one huge page each, in which the page cache takes what is left."""
    counted = machine == COUNT
    return dataclasses.replace(
        queue(machine=machine),
        name="queue.cgroups.count" if counted else "queue.cgroups",
        title="Files are read while memory is short, beside 2,000 cgroups of one huge page that stays: "
        + ("instructions" if counted else "time"),
        tests=tuple(f"cgroups_{kind}" for kind in KINDS),
        seconds=120,
        figures=(*(processor if counted else times)("read"), "reclaimed_directly", "reclaimed_by_kswapd", "split"),
        memory_mib=4608,
        variables=(("BENCH_MIB", "4000"),),
    )


CASES = (
    zero_drop(thp_swap=True, machine=COUNT),
    zero_drop(thp_swap=False, machine=COUNT),
    Case(
        name="shrink.count",
        title="Sparse huge pages are given back, dense ones only checked: instructions",
        program="bench_shrink",
        tests=(*CHECKED, "dense_512_anywhere", "reclaim_40"),
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
    zero_drop(thp_swap=True),
    zero_drop(thp_swap=False),
    Case(
        name="shrink",
        title="Sparse huge pages are given back, dense ones only checked: time",
        program="bench_shrink",
        tests=(*CHECKED, "dense_512_anywhere", "reclaim_40"),
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
        title="A program that needs twice its memory limit unless zero-filled pages are given back",
        program="bench_oom",
        tests=tuple(f"oom_{threshold}" for threshold in THRESHOLDS),
        seconds=2,
        figures=("survived", "rss_peak", "thps"),
        rounds=2,
    ),
    Case(
        name="stacks",
        title="2,000 thread stacks of 2 MiB with enabled=always, a few pages of each in use",
        program="bench_stacks",
        tests=("stacks",),
        seconds=30,
        figures=("over_never", "never", "always", "rss", "memory_never", "memory", "reclaim_time"),
        rounds=2,
        memory_mib=5120,
        variables=(("BENCH_MIB", "4000"),),
    ),
    swapin(machine=WALL),
    swapin(machine=COUNT),
    fragment("fragment.madvise", 2048),
    fragment("fragment.madvise.large", 6144),
    fragment("fragment.always", 2048, (STOCK, THP, DEFRAG)),
    fragment("fragment.defer", 2048, (STOCK, THP, DEFRAG)),
    dataclasses.replace(
        fragment("fragment.madvise.steps", 2048),
        title="The same with the patches of defrag mode, one after the other, and the mode on",
        kernels=(BEFORE, *(f"{name}-defrag" for name in STEPS), DEFRAG),
        pairs=((DEFRAG, BEFORE),),
        rounds=1,
    ),
    modes("order_0.count", "Small pages are faulted in and freed", "bench_order_0", SMALL, ("allocate", "free")),
    modes(
        "fault.modes.count", "A huge page is faulted in and freed", "bench_fault", ("fault_1",), ("fault_net", "free")
    ),
    Case(
        name="programs",
        title="Programs with sparse heaps",
        program="programs",
        tests=each(("python", "mix"), *MODES),
        seconds=12,
        figures=("rss", "huge", "rss_left", "kept", "wasted", "peak", "pressure", "killed", "work"),
        disk=ROOT,
    ),
    Case(
        name="contention",
        title="Processes of one cgroup fault huge pages in and unmap them at the same time",
        program="bench_contention",
        tests=each(("faults", "unmaps"), "1", "2", "4"),
        seconds=12,
        figures=("per_thp_time", "fault", "unmap"),
        kernels=(STOCK, THP),
        pairs=((THP, STOCK),),
        quick=0,
    ),
    queue(machine=COUNT),
    queue(machine=WALL),
    queue_cgroups(machine=COUNT),
    queue_cgroups(machine=WALL),
    symbols("sparse", "bench_shrink", "sparse_40", 16, kernels=(THP, UPSTREAM)),
    symbols("dense", "bench_shrink", "dense_512", 256, kernels=(THP, UPSTREAM)),
    symbols("fault", "bench_fault", "fault_1", 64),
    symbols("worst", "bench_zero_drop", "worst.zram", 16, thp_swap=False),
    symbols("swapin", "bench_swapin", "swapin_random.ram", 64, kernels=(STOCK, ALWAYS)),
    symbols("unadvised", "bench_swapin", "swapin_unadvised.ram", 64, kernels=(STOCK, THP, ADVISED)),
    symbols("thrash", "bench_swapin", "swapin_thrash.ram", 64, kernels=(STOCK, THP, ALWAYS)),
)


# The run of the stock kernel that says how fast the swap disk has to be.
CALIBRATION = dataclasses.replace(
    zero_drop(thp_swap=True), name="throttle", tests=(BEST_ZRAM, BEST_DISK), seconds=6, kernels=(STOCK,), pairs=()
)

# What `--count` measures of the package's kernel: what needs no module and no other kernel.
COUNTED = ("fault.count", "shrink.count")


def counted() -> list[Case]:
    """Return the cases of `--count`, in one round: an instruction count is deterministic."""
    found = [case for case in CASES if case.name in COUNTED]
    return [dataclasses.replace(case, kernels=(PACKAGED,), pairs=(), rounds=1) for case in found]


def chosen(pattern: str, cases: Sequence[Case] = CASES) -> list[Case]:
    """Return the cases whose names match a pattern; `CASE:TEST` reduces them to one test."""
    name, _, test = pattern.partition(":")
    found = [case for case in cases if fnmatch.fnmatchcase(case.name, name)]
    if not found:
        raise UserError(f"no case is called {name}", f"there are {', '.join(case.name for case in cases)}")
    return [case.alone(test) for case in found] if test else found


def command(case: Case, test: str) -> str:
    """Return the command that measures only this test, again."""
    name = case.name.partition(":")[0]
    return f"make bench ONLY={name}{f':{test}' if test else ''} FORCE=1"
