"""The goals of kernel-thp in the benchmark, and whether it reaches them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.kernels import ADVISED, ALWAYS, DEFRAG, NEWEST_DEFRAG, STOCK, THP, UPSTREAM
from bench.ratios import Row, Spread

WHOLE, SPLIT = "zero_drop.whole", "zero_drop.split"
MADVISE, FAULTS = "fragment.madvise", "fragment_madvise"
SWAPIN, COUNTED, RANDOM, THRASH = "swapin", "swapin.count", "swapin_random", "swapin_thrash"
MET, MISSED, UNKNOWN = "met", "missed", "not measured"


@dataclass(frozen=True)
class Goal:
    """A figure of kernel-thp: at most `most`, or at least `least`.

    It is a ratio if it is compared: with the same figure of kernel `over`, or with a count measured `before`.
    """

    text: str
    case: str
    test: str
    figure: str
    over: str = ""
    most: float | None = None
    least: float | None = None
    before: float | None = None
    of: str = THP

    @property
    def wish(self) -> str:
        bound = f"at most {self.most:g}" if self.most is not None else f"at least {self.least:g}"
        base = self.over or (f"{self.before:,.0f}" if self.before else "")
        return f"{bound} of {base}" if base else bound


@dataclass(frozen=True)
class Outcome:
    goal: Goal
    found: Spread | None
    verdict: str


# Instructions to check a huge page with 103 live pages, when its empty pages were read to the end first.
READ_TO_THE_END = 325_477

GOALS = (
    Goal("sparse huge page given back", "shrink.count", "sparse_40", "per_thp_cpu", UPSTREAM, most=0.22),
    Goal("103 live pages checked", "shrink.count", "dense_103", "per_thp_cpu", before=READ_TO_THE_END, most=0.1),
    Goal("dense huge page checked", "shrink.count", "dense_512", "per_thp_cpu", UPSTREAM, most=1),
    Goal("dense in the last bytes only", "shrink.count", "dense_512_last", "per_thp_cpu", UPSTREAM, most=1),
    Goal("huge page faulted in, less its clearing", "fault.count", "fault_1", "fault_net", STOCK, most=1.02),
    Goal("huge page freed", "fault.count", "fault_1", "free", STOCK, most=1.02),
    # Swapped out whole where possible, as shipped.
    Goal("zram, whole, best case: time", WHOLE, "best.zram", "pageout_time", STOCK, most=0.5),
    Goal("zram, whole, worst case: time", WHOLE, "worst.zram", "pageout_time", STOCK, most=1.02),
    Goal("zram, whole, worst case: instructions", f"{WHOLE}.count", "worst.zram", "pageout_cpu", STOCK, most=1.02),
    Goal("disk, whole, best case: time", WHOLE, "best.disk", "on_disk_time", STOCK, most=0.06),
    Goal("disk, whole, worst case: time", WHOLE, "worst.disk", "on_disk_time", STOCK, most=1.01),
    # Always split. The best case on zram is a figure of the mailing list posting of 2021, see docs/bench.md.
    Goal("zram, split, best case: time", SPLIT, "best.zram", "pageout_time", STOCK, most=0.4964),
    Goal("zram, split, worst case: time", SPLIT, "worst.zram", "pageout_time", STOCK, most=1.02),
    Goal("zram, split, worst case: instructions", f"{SPLIT}.count", "worst.zram", "pageout_cpu", STOCK, most=1.02),
    Goal("disk, split, best case: time", SPLIT, "best.disk", "on_disk_time", STOCK, most=0.06),
    Goal("disk, split, worst case: time", SPLIT, "worst.disk", "on_disk_time", STOCK, most=1.01),
    # The figure of the mailing list posting of 2024.
    Goal("survives with a threshold of 470", "oom", "oom_470", "survived", least=1),
    Goal("thread stacks: memory with `always` over `never`", "stacks", "stacks", "over_never", most=1.02),
    Goal("tight memory: used huge pages kept", "programs", "mix.shrinker", "kept", UPSTREAM, least=1),
    Goal("tight memory: unused memory left", "programs", "mix.shrinker", "wasted", most=0.1),
    # `make bench ONLY='fragment*'` measures these. 0.0112 is the figure of the mailing list posting of 2023.
    Goal("vm.defrag_mode=1, 2 GiB, MADV_HUGEPAGE: faults that fail", MADVISE, FAULTS, "failed", most=0.01, of=DEFRAG),
    Goal("the same beside Linux 7.3", MADVISE, FAULTS, "failed", NEWEST_DEFRAG, most=0.5, of=DEFRAG),
    Goal("the same with 6 GiB", f"{MADVISE}.large", FAULTS, "failed", most=0.01, of=DEFRAG),
    Goal("huge pages of the last rounds over the first", MADVISE, FAULTS, "slope", least=0.95, of=DEFRAG),
    Goal("times that a block gets pages of another type", MADVISE, FAULTS, "polluted", STOCK, most=0.01, of=DEFRAG),
    Goal("huge pages made of what is free after the load", MADVISE, FAULTS, "probed", least=0.95, of=DEFRAG),
    Goal("processor time of the load", MADVISE, FAULTS, "work", STOCK, most=1.02, of=DEFRAG),
    Goal("the same without kswapd and kcompactd", MADVISE, FAULTS, "own", STOCK, most=1.02, of=DEFRAG),
    Goal("pages swapped out under the load", MADVISE, FAULTS, "pswpout", STOCK, most=1.5, of=DEFRAG),
    Goal("pages of files read again", MADVISE, FAULTS, "workingset_refault_file", STOCK, most=1.2, of=DEFRAG),
    Goal("pages looked at on a quiet machine", MADVISE, FAULTS, "quiet", most=0, of=DEFRAG),
    Goal("programs killed under the load", MADVISE, FAULTS, "oom_kill", most=0, of=DEFRAG),
    # Back from swap: all of it is touched, with swapin_enabled at always unless the text says otherwise.
    Goal("from swap whole: faults", SWAPIN, f"{RANDOM}.zram", "faults", STOCK, most=1 / 512, of=ALWAYS),
    Goal("huge pages that are back", SWAPIN, f"{RANDOM}.zram", "huge_share", least=0.98, of=ALWAYS),
    Goal("disk, touched at random: time", SWAPIN, f"{RANDOM}.disk", "touch_time", STOCK, most=0.3, of=ALWAYS),
    Goal("disk, touched in order: time", SWAPIN, "swapin_sequential.disk", "touch_time", STOCK, most=0.8, of=ALWAYS),
    Goal("brd, touched at random: time", SWAPIN, f"{RANDOM}.ram", "touch_time", STOCK, most=0.35, of=ALWAYS),
    Goal("brd, touched at random: instructions", COUNTED, f"{RANDOM}.ram", "touch_cpu", STOCK, most=0.2, of=ALWAYS),
    Goal("zram, touched at random: time", SWAPIN, f"{RANDOM}.zram", "touch_time", STOCK, most=1, of=ALWAYS),
    Goal(
        "madvise, memory without advice",
        COUNTED,
        "swapin_unadvised.ram",
        "touch_cpu",
        STOCK,
        most=1.01,
        of=ADVISED,
    ),
    Goal("swapping out: instructions", COUNTED, f"{RANDOM}.zram", "pageout_cpu", STOCK, most=1, of=ALWAYS),
    Goal("disk, more than its cgroup may have", SWAPIN, f"{THRASH}.disk", "touch_time", STOCK, most=1.05, of=ALWAYS),
    Goal("zram, more than its cgroup may have", SWAPIN, f"{THRASH}.zram", "touch_time", STOCK, most=1.05, of=ALWAYS),
    # `make bench ONLY='queue*'` measures these.
    Goal("a pinned huge page, 6,000 queued over 600", "queue.count", "pass_pinned", "growth", most=1.1),
    Goal("page cache read beside 2,000 cgroups", "queue.cgroups.count", "cgroups_pinned", "read_cpu", STOCK, most=1.1),
)


def _figure(goal: Goal, row: Row) -> Spread | None:
    found = row.of(goal.of)
    if not goal.over or (found and found.most == 0 and row.of(goal.over) == found):
        # Nothing on either kernel is not more than on the other.
        return found
    return row.ratio(goal.of, goal.over)


def evaluate(goal: Goal, rows: Sequence[Row]) -> Outcome:
    found = None
    for row in rows:
        if (row.case, row.test, row.figure) == (goal.case, goal.test, goal.figure):
            found = _figure(goal, row)
    if found is None:
        return Outcome(goal, None, UNKNOWN)
    if goal.before:
        found = found.over(goal.before)
    low_enough = goal.most is None or found.median <= goal.most
    high_enough = goal.least is None or found.median >= goal.least
    return Outcome(goal, found, MET if low_enough and high_enough else MISSED)
