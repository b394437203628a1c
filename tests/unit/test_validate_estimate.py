"""The estimate on programs whose memory is known, on the kernel these tests run on."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from scripts.console import ROOT
from tools.thp_validate import estimate, pagemap, thp
from tools.thp_validate.system import System

COMMAND = ROOT / "tools" / "thp-validate"
SPARSE = ROOT / "tests" / "tools" / "sparse.py"
THP = Path("/sys/kernel/mm/transparent_hugepage")
LIVE = [1, 103, 512, 40]
PAGE = 4096


def cannot_run() -> str:
    if os.geteuid() != 0 or not os.access("/proc/kpageflags", os.R_OK):
        return "needs root and /proc/kpageflags"
    if not THP.is_dir() or "[never]" in (THP / "enabled").read_text():
        return "this kernel gives no huge pages"
    return "" if (THP / "hpage_pmd_size").read_text().strip() == str(2 << 20) else "huge pages are not of 2 MiB"


pytestmark = pytest.mark.skipif(bool(cannot_run()), reason=cannot_run())


@contextmanager
def holding(count: int, *words: str) -> Iterator[int]:
    command = [sys.executable, str(SPARSE), str(count), ",".join(map(str, LIVE)), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == f"ready {count}\n", "the host is too short of memory for huge pages"
        yield child.pid


def run(*options: str) -> dict[str, Any]:
    done = subprocess.run([COMMAND, "--json", "--estimate", *options], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1, 2), done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["estimate"]
    return found


def given_back(count: int, threshold: int) -> tuple[int, int]:
    zeros = [512 - LIVE[number % len(LIVE)] for number in range(count)]
    split = [zero for zero in zeros if zero > threshold]
    return len(split), sum(split) * PAGE


def huge_bytes(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in rollup if line.startswith("AnonHugePages:"))


def test_reading_all_is_exact_and_leaves_the_huge_pages_alone() -> None:
    with holding(8) as pid:
        found = run("--pid", str(pid))
        assert huge_bytes(pid) == 8 << 21
    total = found["total"]
    assert (found["complete"], total["read"], total["huge_bytes"]) == (True, 8, 8 << 21)
    assert (total["zero_bytes"], total["zero_bytes_error"]) == (given_back(8, 0)[1], 0)
    assert {threshold["pages"] for threshold in total["thresholds"]} >= {51, 256, 409, 511}
    for threshold in total["thresholds"]:
        assert (threshold["split"], threshold["bytes"]) == given_back(8, threshold["pages"])
        assert (threshold["split_error"], threshold["bytes_error"]) == (0, 0)


def test_a_sample_is_bounded_and_its_error_holds() -> None:
    with holding(64) as pid:
        found = run("--pid", str(pid), "--samples", "32")
    total = found["total"]
    assert (found["complete"], total["read"], found["read_bytes"]) == (False, 32, 32 << 21)
    for threshold in total["thresholds"]:
        split, freed = given_back(64, threshold["pages"])
        assert abs(threshold["split"] - split) <= threshold["split_error"]
        assert 0 < threshold["bytes_error"] <= 64 << 21
        assert abs(threshold["bytes"] - freed) <= threshold["bytes_error"]


def test_what_two_processes_share_counts_half_for_each() -> None:
    with holding(4, "fork") as pid:
        found = run("--pid", str(pid))
    assert found["total"]["zero_bytes"] == given_back(4, 0)[1] // 2


def test_locked_memory_is_counted_separately() -> None:
    with holding(4, "lock") as pid:
        found = run("--pid", str(pid))
    assert (found["locked_bytes"], found["total"]["huge_bytes"], found["total"]["read"]) == (4 << 21, 0, 0)


def test_a_program_without_huge_pages_has_no_zero_filled_bytes() -> None:
    found = run("--pid", str(os.getpid()))
    assert found["complete"]
    assert (found["total"]["zero_bytes"], found["total"]["zero_bytes_error"]) == (0, 0)


def test_a_cgroup_holds_its_processes() -> None:
    with holding(4) as pid:
        lines = [line.split(":", 2) for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
        group = next((path for _, names, path in lines if "memory" in names.split(",")), lines[-1][2])
        found = run("--cgroup", group)
    mine = next(one for one in found["largest"] if one["pid"] == pid)
    assert mine["huge_bytes"] == 4 << 21
    assert found["total"]["huge_bytes"] >= mine["huge_bytes"]


def test_all_processes_are_the_default() -> None:
    with holding(4) as pid:
        found = run()
    assert found["scope"] == "all processes"
    assert pid in [one["pid"] for one in found["largest"]]


def test_the_bound_holds_for_a_small_sample_of_equal_values() -> None:
    assert estimate.bound([0.5] * 10) > 0.5
    assert estimate.bound([0.5]) == 1.0
    assert estimate.bound([0.9] * 1024) < 0.011


@pytest.mark.parametrize("share", [0.01, 0.3, 0.97])
def test_the_true_value_is_within_the_bound(share: float) -> None:
    chosen = random.Random(1)
    population = [0.9 if chosen.random() < share else 0.05 for _ in range(50000)]
    truth = sum(population) / len(population)
    missed = 0
    for _ in range(200):
        values = chosen.sample(population, 2000)
        missed += abs(sum(values) / 2000 - truth) > estimate.bound(values)
    assert missed <= 200 * estimate.RISK


def test_mappings_of_other_kinds_are_not_read(tmp_path: Path) -> None:
    """smaps.txt has mappings of each kind: plain, locked, watched by userfaultfd, too small, without huge pages."""
    recorded = Path(__file__).with_name("validate") / "smaps.txt"
    (tmp_path / "7").mkdir()
    # A process name can contain any byte.
    (tmp_path / "7" / "comm").write_bytes(b"\xff\n")
    (tmp_path / "7" / "smaps").write_bytes(recorded.read_bytes().replace(b"/usr/bin/a", b"/usr/bin/\xff"))
    found = pagemap.process(7, 2 << 20, tmp_path)
    assert [(area.first, area.ranges, area.huge_bytes) for area in found.areas] == [(0x7F0000000000, 4, 6 << 20)]
    assert (found.locked_bytes, found.watched_bytes) == (2 << 20, 4 << 20)


def test_out_of_time_is_reported_and_not_overrun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "SEARCH_SECONDS", -1.0)
    system = System()
    with holding(4) as pid:
        found = estimate.run(system, thp.collect(system), None, None, 64)
        assert found.unseen_processes > 1
        assert found.total.read == 0
        monkeypatch.setattr(estimate, "SEARCH_SECONDS", 30.0)
        monkeypatch.setattr(estimate, "READ_SECONDS", -1.0)
        found = estimate.run(system, thp.collect(system), pid, None, 64)
    assert not found.complete
    assert (found.total.huge_bytes, found.total.zero_bytes) == (4 << 21, None)


def test_progress_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(estimate, "PROGRESS", -1.0)
    system = System()
    with holding(4) as pid:
        estimate.run(system, thp.collect(system), pid, None, 64)
    messages = capsys.readouterr().err.splitlines()
    assert "estimate: 0 of 1 processes searched" in messages
    assert "estimate: 3 of 64 huge pages read" in messages
