"""The benchmark's table of cases, its plan, the results it keeps, and the ratios it calculates."""

from __future__ import annotations

from pathlib import Path

import pytest
from bench_results import by_name

from bench import binaries, cases, guest, kernels, ratios, results, run
from bench.cases import CASES, COUNT, WALL, Case
from bench.kernels import NAMES, STOCK, THP, UPSTREAM
from bench.programs import workloads
from bench.programs.measure import MODES
from bench.results import Boot, Figure
from bench.run import Job
from scripts.console import UserError

COMPILED = [case for case in CASES if case.binary not in ("programs", guest.SAMPLER)]
SHRINK = by_name("shrink")


# The table


@pytest.mark.parametrize("case", COMPILED, ids=lambda case: case.name)
def test_every_case_names_tests_of_its_program(case: Case) -> None:
    assert set(case.tests) <= set(binaries.listed(case.program))


def test_every_sampled_test_exists() -> None:
    for case in [case for case in CASES if case.binary == guest.SAMPLER]:
        assert set(case.tests) <= set(binaries.listed(case.program.split()[1]))


def test_the_programs_of_the_disk_are_those_of_the_table() -> None:
    names = [workload.name for workload in workloads.WORKLOADS]
    assert set(by_name("programs").tests) == {f"{name}.{mode}" for name in names for mode in MODES}


def test_guarded_times_have_at_least_five_rounds() -> None:
    timed = [case for case in CASES if case.machine == WALL and case.guard]
    assert timed and all(case.rounds >= 5 for case in timed)


def test_every_guarded_figure_is_shown() -> None:
    for case in CASES:
        assert set(case.guard) <= set(case.figures), case.name


@pytest.mark.parametrize(("quick", "minutes"), [(False, 28), (True, 4.5)])
def test_the_plan_keeps_its_time(quick: bool, minutes: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    monkeypatch.setattr(run, "workers", lambda pending: 2)
    pending = run.jobs([case for case in CASES if not case.extra], quick)
    assert run.total(pending) <= minutes * 60
    assert f"{run.total(pending) / 60:.1f} min" in run.plan(pending)


def test_cases_are_chosen_by_name_and_by_test() -> None:
    names = [case.name for case in cases.chosen("zero_drop.*.count")]
    assert names == ["zero_drop.whole.count", "zero_drop.split.count"]
    (alone,) = cases.chosen("shrink:sparse_40")
    assert (alone.name, alone.tests) == ("shrink:sparse_40", ("sparse_40",))
    assert cases.command(alone, "sparse_40") == "make bench ONLY=shrink:sparse_40 FORCE=1"


@pytest.mark.parametrize(("pattern", "what"), [("shrunk", "no case is called shrunk"), ("shrink:x", "has no test x")])
def test_an_unknown_case_or_test_is_refused(pattern: str, what: str) -> None:
    with pytest.raises(UserError, match=what):
        cases.chosen(pattern)


# The plan


def test_the_long_queues_are_measured_only_when_asked_for() -> None:
    names = [case.name for case in cases.chosen("queue*")]
    assert names == ["queue.count", "queue", "queue.cgroups.count", "queue.cgroups"]
    assert all(case.extra for case in cases.chosen("queue*"))


def test_what_is_shipped_is_measured_first_and_also_when_quick() -> None:
    names = [case.name for case in CASES if case.name.startswith("zero_drop")]
    assert [name for name in names if "whole" in name] == names[::2]
    assert by_name("zero_drop.whole").quick and not by_name("zero_drop.split").quick


def test_as_many_guests_run_at_once_as_fit_into_half_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "memory_mib", lambda: 16384)
    monkeypatch.setattr(run.os, "cpu_count", lambda: 4)
    assert run.workers(run.jobs([by_name("shrink.count")])) == 4
    assert run.workers(run.jobs([by_name("shrink.count"), by_name("queue.cgroups.count")])) == 1
    assert run.workers([]) == 4


def test_a_guest_that_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "memory_mib", lambda: 15360)
    run.check_memory(run.jobs([by_name("queue")]))
    monkeypatch.setattr(run, "memory_mib", lambda: 15359)
    run.check_memory(run.jobs([by_name("shrink")]))
    with pytest.raises(UserError, match=r"queue needs a machine with 15 GiB"):
        run.check_memory(run.jobs([by_name("shrink"), by_name("queue")]))


def test_each_kernel_is_first_in_turn() -> None:
    order = [job.kernels for job in run.jobs([SHRINK])]
    assert order[:3] == [(STOCK, THP, UPSTREAM), (THP, UPSTREAM, STOCK), (UPSTREAM, STOCK, THP)]
    assert len(order) == SHRINK.rounds


def test_rounds_of_all_cases_come_before_the_next_round() -> None:
    pending = run.jobs([SHRINK, by_name("fault")])
    assert [job.round for job in pending] == sorted(job.round for job in pending)


def test_boots_that_count_instructions_are_separate_jobs_and_come_first() -> None:
    pending = run.jobs([SHRINK, by_name("shrink.count")], rounds=7)
    counted = [job for job in pending if job.case.machine == COUNT]
    assert pending[: len(counted)] == counted
    assert sorted(job.label for job in counted) == sorted(f"{number}.{name}" for number in (0, 1) for name in NAMES)
    assert len([job for job in pending if job.case is SHRINK]) == 7


def test_the_plan_uses_the_time_of_the_last_boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    results.write("shrink", "0", {name: Boot("key", 3.0, {}, {}) for name in NAMES})
    assert run.seconds(Job(SHRINK, 0, NAMES)) == run.seconds(Job(SHRINK, 3, NAMES)) == 9.0


@pytest.mark.parametrize("text", ["0", "-1", "x", "2.5"])
def test_a_wrong_number_of_rounds_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "--rounds", text])
    with pytest.raises(SystemExit) as ended:
        run.arguments()
    assert ended.value.code == 2


# Kept results


def boot(key: str = "new", verdict: str = "pass") -> Boot:
    return Boot(key, 1.0, {"sparse_1": (verdict, "")}, {"sparse_1": {"per_thp_time": Figure(1.5, "s")}})


def bench(monkeypatch: pytest.MonkeyPatch, folder: Path) -> run.Bench:
    monkeypatch.setattr(results, "RESULTS", folder)
    made = run.Bench()
    monkeypatch.setattr(made, "key", lambda case, kernel: "new")
    return made


def test_results_are_read_as_they_were_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    results.write("shrink", "0", {THP: boot()})
    assert results.read("shrink", "0") == {THP: boot()}
    assert results.read("shrink", "1") == {}


@pytest.mark.parametrize(
    ("boots", "kept"),
    [
        ({name: boot() for name in NAMES}, True),
        ({**{name: boot() for name in NAMES}, STOCK: boot(verdict="skip")}, True),
        ({**{name: boot() for name in NAMES}, THP: boot(verdict="lost")}, False),
        ({**{name: boot() for name in NAMES}, UPSTREAM: boot("old")}, False),
        ({STOCK: boot(), THP: boot()}, False),
    ],
)
def test_a_round_is_kept_as_a_whole(
    boots: results.Boots, kept: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = bench(monkeypatch, tmp_path)
    results.write("shrink", "0", boots)
    assert made.measured(Job(SHRINK, 0, NAMES)) is kept


def test_the_report_has_the_rounds_that_were_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = bench(monkeypatch, tmp_path)
    results.write("shrink", "1", {name: boot() for name in NAMES})
    results.write("shrink", "2", {name: boot("old") for name in NAMES})
    results.write("shrink.count", "0.thp", {THP: boot()})
    assert made.rounds(SHRINK) == [{name: boot() for name in NAMES}]
    assert made.rounds(by_name("shrink.count")) == [{THP: boot()}]


class FakeGuest:
    """Answers at once, and records its boots."""

    def __init__(self, verdict: str = "pass") -> None:
        self.booted: list[tuple[str, str]] = []
        self.verdict = verdict

    def boot(self, kernel: kernels.Kernel, label: str) -> Boot:
        self.booted.append((kernel.name, label))
        return boot(verdict=self.verdict)


def test_a_run_measures_the_jobs_that_are_left_and_keeps_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def kernel(name: str, thp_swap: bool = True) -> kernels.Kernel:
        return kernels.Kernel(name, "6.1", thp_swap, "key", tmp_path / name)

    made = bench(monkeypatch, tmp_path)
    fakes = {name: FakeGuest() for name in ("shrink", "shrink.count")}
    monkeypatch.setattr(made, "guest", lambda case: fakes[case.name])
    monkeypatch.setattr(kernels, "find", kernel)
    monkeypatch.setattr(kernels, "build", kernel)
    pending = run.jobs([SHRINK, by_name("shrink.count")], quick=True)
    made.run([job for job in pending if not made.measured(job)])
    assert fakes["shrink"].booted == [(name, "0") for name in NAMES]
    assert sorted(fakes["shrink.count"].booted) == sorted((name, f"0.{name}") for name in NAMES)
    assert all(made.measured(job) for job in pending)


@pytest.mark.parametrize(("verdict", "kept"), [("pass", True), ("lost", False)])
def test_an_interrupted_round_is_not_kept(
    verdict: str, kept: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = bench(monkeypatch, tmp_path)
    monkeypatch.setattr(made, "guest", lambda case: FakeGuest(verdict))
    monkeypatch.setattr(kernels, "find", lambda name, whole: kernels.Kernel(name, "6.1", whole, "key", tmp_path / name))
    made.stopped = True
    made.measure(Job(SHRINK, 0, NAMES))
    assert bool(results.read("shrink", "0")) is kept


# Ratios


def rows(*values: dict[str, float]) -> list[ratios.Row]:
    def boots(each: dict[str, float]) -> results.Boots:
        return {kernel: Boot("", 0, {}, {"t": {"x": Figure(value, "s")}}) for kernel, value in each.items()}

    return ratios.rows("shrink", list(map(boots, values)), NAMES)


def test_a_ratio_is_taken_within_a_round() -> None:
    (row,) = rows({STOCK: 100, THP: 90}, {STOCK: 50, THP: 50}, {STOCK: 10, THP: 9.5})
    assert row.ratio(THP, STOCK) == ratios.Spread(0.95, 0.9, 1.0)
    assert row.of(STOCK) == ratios.Spread(50, 10, 100)


def test_a_round_without_one_of_the_two_has_no_ratio() -> None:
    (row,) = rows({STOCK: 100, THP: 90}, {THP: 50}, {STOCK: 0, THP: 1})
    assert row.ratio(THP, STOCK) == ratios.Spread(0.9, 0.9, 0.9)
    assert row.ratio(THP, UPSTREAM) is None


def test_a_fault_is_also_shown_without_clearing() -> None:
    named = {"fault": Figure(1000, "ns"), "clear": Figure(900, "ns"), "free": Figure(5, "ns")}
    assert ratios.with_derived({"fault_1": named})["fault_1"]["fault_net"] == Figure(100, "ns")
    assert "fault_net" not in ratios.with_derived({"t": {"fault": Figure(1, "ns")}})["t"]


def test_memory_given_back_is_shown_per_processor_time() -> None:
    named = {"per_thp_cpu": Figure(4e6, "ns"), "given_back": Figure(8, "thps"), "freed": Figure(8 * 400, "pages")}
    found = ratios.with_derived({"t": named, "u": {**named, "given_back": Figure(0, "thps")}})
    assert found["t"]["freed_by_cpu"] == Figure(400 * 4096 / 4e-3, "bytes/s")
    assert "freed_by_cpu" not in found["u"]


def test_a_disk_is_compared_with_zram() -> None:
    zram, disk = {"pageout_time": Figure(2.0, "s")}, {"pageout_time": Figure(3.0, "s"), "on_disk_time": Figure(19, "s")}
    found = ratios.with_derived({"best.zram": zram, "best.disk": disk})
    assert found["best.disk"]["over_zram"] == Figure(9.5, "share")
    assert "over_zram" not in found["best.zram"]
    assert "over_zram" not in ratios.with_derived({"best.disk": disk})["best.disk"]
