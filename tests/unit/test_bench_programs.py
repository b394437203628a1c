"""The scripts of the workload with real programs, as far as they can be tried without a guest."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import binaries, root
from bench.programs import measure, memory
from bench.programs.cgroup import Cgroup
from bench.programs.measure import MODES, Run
from bench.programs.workloads import WORKLOADS, Redis, Workload
from tools.thp_validate import ktap

PEAK = 40 << 20


def test_redis_is_spoken_to_in_its_protocol() -> None:
    assert Redis.packed(("GET", "key:1")) == "*2\r\n$3\r\nGET\r\n$5\r\nkey:1\r\n"


def test_the_memory_of_one_mapping_is_told_from_the_rest() -> None:
    size = 1 << 20
    area = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.write(b"1" * size)
    rss, _ = memory.mapped(os.getpid(), ctypes.addressof(ctypes.c_char.from_buffer(area)))
    assert size <= rss < memory.rolled_up([os.getpid()])[0]


def test_a_cgroup_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {
        "memory.peak": "4096\n",
        "memory.events": "low 0\noom 2\noom_kill 1\noom_group_kill 0\n",
        "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=7\n",
        "cgroup.procs": "12\n13\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    cgroup = Cgroup("redis", None)
    cgroup.path = tmp_path
    assert (cgroup.peak(), cgroup.killed(), cgroup.pressure(), cgroup.pids()) == (4096, 1, 2.5, [12, 13])


@pytest.fixture
def guest(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[int | None]]]:
    """A guest whose kernel has no shrinker; returns the modes in which programs ran, and their limits."""
    ran = []

    def run_all(mode: str, chosen: Sequence[Workload]) -> list[Run]:
        runs = [Run(workload, mode) for workload in chosen]
        ran.append((mode, [run.limit for run in runs]))
        for run in runs:
            run.figures = [("peak", PEAK, "bytes"), ("work", 1.25, "s")]
        return runs

    monkeypatch.setattr(measure, "run_all", run_all)
    monkeypatch.setattr(measure, "warm", lambda: None)
    monkeypatch.setattr(memory, "set_mode", lambda mode: "no shrinker" if mode == "shrinker" else "")
    return ran


def test_all_tests_are_reported_in_the_order_in_which_they_are_made(
    guest: list[tuple[str, list[int | None]]], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = [f"{workload.name}.{mode}" for mode in MODES for workload in WORKLOADS]
    measure.main(wanted)
    said = capsys.readouterr().out
    found = ktap.parse(said.splitlines())
    assert not found.problems
    assert [test.name for test in found.leaves()] == wanted
    assert [test.verdict for test in found.leaves()] == ["pass"] * 12 + ["skip"] * 4
    assert "# redis.madvise: work 1.250000 s\n" in said
    assert f"# mix.always: peak {PEAK} bytes\n" in said


def test_memory_is_limited_only_where_it_is_to_be_tight(
    guest: list[tuple[str, list[int | None]]], capsys: pytest.CaptureFixture[str]
) -> None:
    measure.main(["java.always", "java.tight"])
    (java,) = (workload for workload in WORKLOADS if workload.name == "java")
    assert [run for run in guest if run[1]] == [("always", [None]), ("tight", [java.limit])]
    names = [test.name for test in ktap.parse(capsys.readouterr().out.splitlines()).leaves()]
    assert names == ["java.always", "java.tight"]


def test_why_a_program_was_not_measured_is_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(WORKLOADS[0], "always")
    run.figures = [("work", 1.25, "s")]
    run.why = "OSError: no memory"
    measure.report(1, run)
    (test,) = ktap.parse(["KTAP version 1", "1..1", *capsys.readouterr().out.splitlines()]).leaves()
    assert (test.verdict, "OSError: no memory" in test.reason) == ("fail", True)


def test_the_guest_gets_all_scripts_and_the_disk_all_packages() -> None:
    names = {path.name for path in binaries.files("programs")}
    assert {"programs", "enter.sh", "measure.py", "table.py", "mix.py", "__init__.py"} <= names
    assert {"python3", "redis-server", "openjdk-17-jre-headless"} <= set(root.packages())
