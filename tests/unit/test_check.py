"""`make check` goes on where it was interrupted, starts over after success or a change, and names what failed."""

from __future__ import annotations

import re
import subprocess
import threading
from pathlib import Path
from typing import IO

import pytest

from scripts import check
from scripts.console import ROOT, UserError


class Suites:
    """Stands for make: notes what ran, and fails what it is told to."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.failing = {"two FLAVOUR=server"}
        self.interrupted = ""

    def run(self, suite: check.Suite, output: IO[str] | None = None) -> float:
        print(f"{suite.name} at work", file=output)
        if suite.name == self.interrupted:
            raise KeyboardInterrupt
        self.ran.append(suite.name)
        return -2.0 if suite.name in self.failing else 1.0


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Suites:
    suites = Suites()
    monkeypatch.setattr(check, "FOLDER", tmp_path)
    monkeypatch.setattr(check, "RUNS", {"check": check.stages("one", "two FLAVOUR=server", "three")})
    monkeypatch.setattr(check, "sources", lambda name: "state")
    monkeypatch.setattr(check, "run", suites.run)
    monkeypatch.setattr("sys.argv", ["check", "check"])
    return suites


def test_a_failure_is_named_and_the_other_suites_run(made: Suites, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"failed: two FLAVOUR=server; .* `make check` goes on"):
        check.command()
    assert made.ran == ["one", "two FLAVOUR=server", "three"]
    assert capsys.readouterr().out.splitlines()[-1] == "check: 2 passed, 1 failed"


@pytest.mark.parametrize("plan", [("one", "two FLAVOUR=server", "three"), ("one, two FLAVOUR=server", "three")])
def test_the_next_run_repeats_what_failed_and_nothing_else(
    made: Suites, monkeypatch: pytest.MonkeyPatch, plan: tuple[str, ...]
) -> None:
    monkeypatch.setattr(check, "RUNS", {"check": check.stages(*plan)})
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
    monkeypatch.setattr(check, "sources", lambda name: "another state")
    with pytest.raises(UserError):
        check.command()
    assert len(made.ran) == 6


def test_prose_is_no_source_of_what_does_not_test_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def changed() -> list[str]:
        """Return the runs whose sources are others than before."""
        now = {name: check.sources(name) for name in check.RUNS}
        found = [name for name in now if now[name] != known.get(name)]
        known.update(now)
        return found

    known: dict[str, str] = {}
    monkeypatch.setattr(check, "ROOT", tmp_path)
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    for name in ("docs", "tests", "patches/6.1"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("README.md", "docs/lab.md", "tests/README.md", "code.py"):
        (tmp_path / name).write_text("first\n")
    assert changed() == ["check", "check-full"]
    for name in ("README.md", "docs/lab.md", "patches/6.1/tested.json"):
        (tmp_path / name).write_text("second\n")
        assert changed() == ["check"], name
    for name in ("code.py", "new.py", "tests/README.md"):
        (tmp_path / name).write_text("second\n")
        assert changed() == ["check", "check-full"], name
    subprocess.run(["git", "-C", tmp_path, "add", "."], check=True)
    assert changed() == [], "to commit something changes nothing"
    (tmp_path / "code.py").chmod(0o755)
    assert changed() == ["check", "check-full"]
    for target in ("nowhere", "code.py"):
        (tmp_path / "new.py").unlink()
        (tmp_path / "new.py").symlink_to(target)
        assert changed() == ["check", "check-full"], target
    (tmp_path / "new.py").unlink()
    assert changed() == ["check", "check-full"]


def test_an_interrupt_keeps_what_has_passed(made: Suites) -> None:
    made.failing.clear()
    made.interrupted = "three"
    with pytest.raises(KeyboardInterrupt):
        check.command()
    made.ran.clear()
    made.interrupted = ""
    check.command()
    assert made.ran == ["three"]


@pytest.fixture
def together(made: Suites, monkeypatch: pytest.MonkeyPatch) -> Suites:
    monkeypatch.setattr(check, "RUNS", {"check": check.stages("one, two FLAVOUR=server", "three")})
    return made


def test_suites_of_a_stage_run_at_the_same_time(together: Suites, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2, timeout=30)

    def run(suite: check.Suite, output: IO[str] | None = None) -> float:
        if suite.name != "three":
            both.wait()
        return 1.0

    monkeypatch.setattr(check, "run", run)
    check.command()


def test_what_ran_beside_another_is_shown_after_it(together: Suites, capsys: pytest.CaptureFixture[str]) -> None:
    together.failing.clear()
    check.command()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith("at work")]
    assert lines == ["one at work", "two FLAVOUR=server at work", "three at work"]


def test_an_interrupt_waits_for_what_runs_beside(together: Suites) -> None:
    together.failing.clear()
    together.interrupted = "one"
    with pytest.raises(KeyboardInterrupt):
        check.command()
    assert together.ran == ["two FLAVOUR=server"]


@pytest.fixture
def autogroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "autogroup"
    monkeypatch.setattr(check, "AUTOGROUP", path)
    return path


def test_the_session_makes_way_and_gets_its_nice_value_back(autogroup: Path) -> None:
    autogroup.write_text("/autogroup-7 nice -2\n")
    with check.modesty():
        assert autogroup.read_text() == str(check.MODEST)
    assert autogroup.read_text() == "-2"


def test_a_process_without_an_autogroup_leaves_it_at_that(autogroup: Path) -> None:
    autogroup.write_text("")
    with check.modesty():
        assert not autogroup.read_text()
    assert not autogroup.read_text()


def test_a_kernel_without_autogroups_has_none(autogroup: Path) -> None:
    with check.modesty():
        assert not autogroup.exists()
    assert not autogroup.exists()


def test_every_suite_is_a_target_of_the_makefile() -> None:
    targets = re.findall(r"^([a-z][a-z -]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    known = {name for line in targets for name in line.split()}
    assert {suite.goals[0] for suite in check.every((*check.CHECK, *check.FULL))} <= known
