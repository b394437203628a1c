"""The scripts of the case `programs`, as far as they run without a guest."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench import binaries, root
from bench.programs import measure, memory
from bench.programs.cgroup import Cgroup
from bench.programs.measure import MODES, Run
from bench.programs.workloads import WORKLOADS, Workload
from tools.thp_validate import ktap

PEAK = 40 << 20


def python(code: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_a_program_prints_its_output_when_its_work_is_done() -> None:
    with python("""print('{"work": 1.5}')""") as process:
        assert measure.read_output(process) == {"work": 1.5}


def test_a_program_that_ends_early_is_an_error() -> None:
    with python("") as process, pytest.raises(OSError, match="ended before its work was done"):
        measure.read_output(process)


def test_the_memory_of_one_mapping_is_read() -> None:
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
    cgroup = Cgroup("mix", None)
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


def test_all_tests_are_reported_in_the_order_in_which_they_run(
    guest: list[tuple[str, list[int | None]]], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = [f"{workload.name}.{mode}" for mode in MODES for workload in WORKLOADS]
    measure.main(wanted)
    output = capsys.readouterr().out
    found = ktap.parse(output.splitlines())
    assert not found.problems
    assert [test.name for test in found.leaves()] == wanted
    assert [test.verdict for test in found.leaves()] == ["pass"] * 6 + ["skip"] * 2
    assert "# python.madvise: work 1.250000 s\n" in output
    assert f"# mix.always: peak {PEAK} bytes\n" in output


def test_only_the_tight_modes_have_a_limit(
    guest: list[tuple[str, list[int | None]]], capsys: pytest.CaptureFixture[str]
) -> None:
    measure.main(["mix.always", "mix.tight"])
    (mix,) = (workload for workload in WORKLOADS if workload.name == "mix")
    assert [run for run in guest if run[1]] == [("always", [None]), ("tight", [mix.limit])]
    names = [test.name for test in ktap.parse(capsys.readouterr().out.splitlines()).leaves()]
    assert names == ["mix.always", "mix.tight"]


def test_a_program_that_was_not_measured_has_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(WORKLOADS[0], "always")
    run.figures = [("work", 1.25, "s")]
    run.reason = "OSError: no memory"
    measure.report(1, run)
    (test,) = ktap.parse(["KTAP version 1", "1..1", *capsys.readouterr().out.splitlines()]).leaves()
    assert (test.verdict, "OSError: no memory" in test.reason) == ("fail", True)


def test_the_guest_gets_all_scripts_and_the_disk_all_packages() -> None:
    names = {path.name for path in binaries.files("programs")}
    assert {"programs", "enter.sh", "measure.py", "table.py", "mix.py", "__init__.py"} <= names
    assert root.packages() == ["python3"]
