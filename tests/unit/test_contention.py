"""The benchmark of contention: its figures are read, compared round by round, and never taken from a failed test."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import binaries, contention
from bench.contention import STOCK, THP, Round, Sample
from lab import direct_boot
from scripts.console import UserError
from tests.verdicts import Verdict

LINE = "# faults.2: 640 huge pages, 631.5 /s, fault 3000.5 ns, unmap 120.0 ns"
SAMPLE = Sample(640, 631.5, 3000.5, 120.0)


def done(stock: Sample, thp: Sample, test: str) -> Round:
    return {STOCK: {test: stock}, THP: {test: thp}}


def test_lines_with_figures_are_read_and_others_are_not() -> None:
    assert contention.read_samples(["KTAP version 1", LINE, "# faults.2 took 1.1 s", "ok 1 faults.2"]) == {
        "faults.2": SAMPLE
    }


def test_a_ratio_is_taken_within_a_round() -> None:
    rounds = [done(Sample(1, stock, 1, 1), Sample(1, thp, 1, 1), "faults.1") for stock, thp in ((100, 90), (50, 50))]
    rounds.append(done(Sample(1, 10.0, 1, 1), Sample(1, 9.5, 1, 1), "faults.1"))
    found = contention.ratio("faults.1", rounds)
    assert (found.least, found.median, found.most) == (0.9, 0.95, 1.0)


def test_where_processes_wait_for_each_other_processor_time_counts() -> None:
    rounds = [done(Sample(1, 100, 1, 50), Sample(1, 900, 1, 100), "unmaps.2")]
    assert contention.ratio("unmaps.2", rounds).median == 0.5


def console(folder: Path, line: str) -> Path:
    path = folder / direct_boot.CONSOLE
    path.write_text(f"booting\r\n### thp_faults\r\n{line}\r\nok 1 faults.2\r\n### ended\r\n")
    return path


@pytest.mark.parametrize(
    ("verdict", "text", "why"),
    [
        (Verdict("fail", "process 0 got 3 huge pages"), LINE, "fail: process 0 got 3 huge pages"),
        (Verdict("skip", "no memory controller"), LINE, "skip: no memory controller"),
        (Verdict("pass", ""), "ok 1 faults.2", "pass: no line with figures"),
    ],
)
def test_what_is_no_measurement_is_an_error(verdict: Verdict, text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"faults.2 measured nothing: {why}"):
        contention.accepted({"faults.2": verdict}, console(tmp_path, text))


def test_a_measurement_is_returned(tmp_path: Path) -> None:
    assert contention.accepted({"faults.2": Verdict("pass", "")}, console(tmp_path, LINE)) == {"faults.2": SAMPLE}


def test_the_program_has_the_tests_that_are_counted() -> None:
    tests = binaries.listed(contention.PROGRAM)
    assert set(contention.COUNTED) < set(tests)
    assert {test.partition(".")[2] for test in tests} == {"1", "2", "4"}


@pytest.mark.parametrize("text", ["0", "-1", "x", "2.5"])
def test_a_wrong_number_of_rounds_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["contention", "--rounds", text])
    with pytest.raises(SystemExit) as ended:
        contention.command()
    assert ended.value.code == 2
