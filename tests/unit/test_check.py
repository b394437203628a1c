"""`make check` goes on where it was interrupted, starts over after success or a change, and names what failed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import check
from scripts.console import ROOT, UserError


class Suites:
    """Stands for make: notes what ran, and fails what it is told to."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.failing = {"two FLAVOUR=server"}
        self.interrupted = ""

    def run(self, suite: check.Suite) -> float:
        if suite.name == self.interrupted:
            raise KeyboardInterrupt
        self.ran.append(suite.name)
        return -2.0 if suite.name in self.failing else 1.0


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suites:
    suites = Suites()
    monkeypatch.setattr(check, "FOLDER", tmp_path)
    monkeypatch.setattr(check, "RUNS", {"check": check.suites("one", "two FLAVOUR=server", "three")})
    monkeypatch.setattr(check, "sources", lambda: "state")
    monkeypatch.setattr(check, "run", suites.run)
    monkeypatch.setattr("sys.argv", ["check", "check"])
    return suites


def test_a_failure_is_named_and_the_other_suites_run(made: Suites, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"failed: two FLAVOUR=server; .* `make check` goes on"):
        check.command()
    assert made.ran == ["one", "two FLAVOUR=server", "three"]
    assert capsys.readouterr().out.splitlines()[-1] == "check: 2 passed, 1 failed"


def test_the_next_run_repeats_what_failed_and_nothing_else(made: Suites) -> None:
    with pytest.raises(UserError):
        check.command()
    made.ran.clear()
    made.failing.clear()
    check.command()
    assert made.ran == ["two FLAVOUR=server"]


def test_after_success_everything_runs_again(made: Suites) -> None:
    made.failing.clear()
    check.command()
    check.command()
    assert len(made.ran) == 6


def test_after_a_change_everything_runs_again(made: Suites, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError):
        check.command()
    monkeypatch.setattr(check, "sources", lambda: "another state")
    with pytest.raises(UserError):
        check.command()
    assert len(made.ran) == 6


def test_an_interrupt_keeps_what_has_passed(made: Suites) -> None:
    made.failing.clear()
    made.interrupted = "three"
    with pytest.raises(KeyboardInterrupt):
        check.command()
    made.ran.clear()
    made.interrupted = ""
    check.command()
    assert made.ran == ["three"]


def test_every_suite_is_a_target_of_the_makefile() -> None:
    targets = re.findall(r"^([a-z][a-z -]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    known = {name for line in targets for name in line.split()}
    assert {suite.goals[0] for suite in (*check.CHECK, *check.FULL)} <= known
