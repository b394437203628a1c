"""Hosts of a gate run share the selftests: each is run once, by whoever is free."""

from __future__ import annotations

from pathlib import Path

from lab.vm import Line
from tests.kernel.gate import Work


def test_each_is_taken_once_and_in_order() -> None:
    work = Work()
    work.offer(["thp:a", "thp:b"])
    # The second host names them again, when the first one has begun.
    assert work.take() == "thp:a"
    work.offer(["thp:a", "thp:b"])
    assert [work.take(), work.take(), work.take()] == ["thp:b", "", ""]


def test_what_was_through_before_an_interrupt_is_not_repeated(tmp_path: Path) -> None:
    lines = [Line(0.0, "TAP version 13"), Line(0.1, "1..1"), Line(2.5, "ok 1 a.first")]
    before = Work(tmp_path / "kept")
    before.offer(["thp:a", "thp:b"])
    before.done(before.take(), lines)
    before.take()
    after = Work(tmp_path / "kept")
    after.offer(["thp:a", "thp:b"])
    assert [after.take(), after.take()] == ["thp:b", ""]
    assert after.reports == before.reports
    assert [leaf.name for leaf in after.reports["thp:a"].leaves()] == ["a.first"]


def test_without_a_place_nothing_is_kept(tmp_path: Path) -> None:
    for _ in range(2):
        work = Work()
        work.offer(["thp:a"])
        assert work.take() == "thp:a"
        work.done("thp:a", [Line(0.0, "TAP version 13"), Line(0.1, "1..1"), Line(0.2, "ok 1 a.first")])
