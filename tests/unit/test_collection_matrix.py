"""The matrix of ansible-core: a release that cannot run here is named, and nothing that ran is no success."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import collection_matrix
from scripts.collection_matrix import Release
from scripts.console import UserError

NOBODYS = Release("9.9.0", (90, 91))
OURS = Release("2.16.19", (sys.version_info[1], sys.version_info[1]))


def test_a_python_is_chosen_by_the_version_that_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection_matrix.shutil, "which", lambda name: name if name == "python3" else None)
    monkeypatch.setenv("PATH", f"{collection_matrix.BUILD}/venv/bin:/usr/bin:/bin")
    assert OURS.python() == "python3"
    assert NOBODYS.python() is None


def test_a_release_without_a_python_is_named_and_the_others_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []
    monkeypatch.setattr(Release, "python", lambda self: None if self is NOBODYS else "python3")
    monkeypatch.setattr(collection_matrix, "prepare", lambda release, python: python)
    monkeypatch.setattr(collection_matrix, "run_logged", lambda words, log, what, *_, **__: ran.append(what))
    monkeypatch.setattr(collection_matrix, "RELEASES", (NOBODYS, OURS))
    monkeypatch.setattr("sys.argv", ["collection_matrix"])
    collection_matrix.command()
    assert ran == ["ansible-core 2.16.19"]
    shown = capsys.readouterr().out
    assert "ansible-core 9.9.0: not run, because it needs a Python from 3.90 to 3.91 on PATH" in shown
    assert shown.endswith("passed with ansible-core 2.16\n")


def test_a_matrix_in_which_nothing_ran_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Release, "python", lambda self: None)
    monkeypatch.setattr("sys.argv", ["collection_matrix"])
    with pytest.raises(UserError, match=r"no release of ansible-core was tested; install a Python"):
        collection_matrix.command()


def test_all_that_use_ansible_are_run() -> None:
    found = {path.rpartition("/")[2] for path in collection_matrix.tests()}
    assert {"test_fleet_plays.py", "test_fleet_internals.py", "test_fleet_reboot.py"} <= found
    assert "test_fleet_boot.py" not in found


def test_what_static_leaves_out_is_played_here() -> None:
    """`make static` runs no test of this folder that is marked full, and no other target runs one."""
    folder = Path(__file__).parent
    mark = "pytest.mark." + "full"
    left_out = {f"tests/unit/{path.name}" for path in folder.glob("test_*.py") if mark in path.read_text()}
    assert left_out, "then neither the mark nor this test is needed"
    assert left_out <= set(collection_matrix.tests()), "no target of make runs these"
