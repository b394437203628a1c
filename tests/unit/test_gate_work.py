"""Hosts of a gate run share the selftests: each is run once, by whoever is free."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.vm import Line
from scripts.console import UserError
from scripts.flavours import FLAVOURS
from tests.kernel.gate import Gate, Work
from tests.kernel.results import Results


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


class Machine:
    """A host that is up; its kernel had started before its console begins."""

    def __init__(self) -> None:
        self.silence = 60.0
        self.directory = Path("vm")

    def wait_ssh(self, timeout: float) -> None:
        """It answers at once."""

    def console_text(self) -> str:
        return "[  277.2] kselftest: Running tests in thp\n[  278.1] BUG: unable to handle page fault\n"


def test_the_console_of_a_host_that_starts_from_a_booted_one_begins_later(monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(FLAVOURS["debug"], Machine(), "", Work(), Results())  # type: ignore[arg-type]
    monkeypatch.setattr(Gate, "test", Gate.complain_of_console)
    with pytest.raises(UserError, match="no kernel start"):
        gate.test()
    gate.go_on()
    assert gate.results.reasons == ["kernel splat: BUG: unable to handle page fault"]
