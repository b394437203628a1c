"""The directories of runs: none that another user could redirect, and without interfering with other runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process, report, run_dir
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal

from tests.unit.plays import play, there

STRANGER = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


@pytest.fixture
def public(tmp_path: Path) -> Path:
    """A directory as /tmp is."""
    found = tmp_path / "public"
    found.mkdir()
    found.chmod(0o1777)
    return found


def strangers(path: Path) -> Path:
    os.chown(path, STRANGER, STRANGER, follow_symlinks=False)
    return path


def test_a_directory_of_ones_own_is_used_also_behind_a_link(tmp_path: Path, public: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert run_dir.trusted(tmp_path / "link") == tmp_path / "real"
    assert run_dir.trusted(public / "reports") == public / "reports"


@as_root
def test_a_directory_that_a_team_shares_is_used(tmp_path: Path) -> None:
    team = tmp_path / "team"
    team.mkdir()
    team.chmod(0o2775)
    assert run_dir.trusted(strangers(team)) == team


@as_root
@pytest.mark.parametrize("inside", ["", "of/them"])
def test_what_a_stranger_put_where_everybody_can_is_refused(public: Path, inside: str) -> None:
    (public / "reports").mkdir()
    strangers(public / "reports")
    with pytest.raises(AnsibleActionFail, match=f"{public}/reports belongs to user {STRANGER}"):
        run_dir.trusted(public / "reports" / inside)


@as_root
def test_a_link_of_a_stranger_is_not_followed(tmp_path: Path, public: Path) -> None:
    (public / "reports").symlink_to(tmp_path)
    strangers(public / "reports")
    with pytest.raises(AnsibleActionFail, match=f"{public}/reports belongs to user {STRANGER}"):
        run_dir.trusted(public / "reports")


def test_a_directory_in_which_everybody_may_replace_things_is_refused(tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    with pytest.raises(AnsibleActionFail, match=f"everybody may replace what is in {loose}"):
        run_dir.trusted(loose / "reports")


def dead(folder: Path) -> Journal:
    found = Journal(folder)
    found.begin("00000000-1-1", "rollout", process.controller(), ["h1"], check=False)
    return found


def test_what_is_no_journal_does_not_keep_others_from_their_reports(tmp_path: Path) -> None:
    for name, content in {"a": "{", "b": "{}", "c": "null", "d": "[1]"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(content)
    dead(tmp_path / "e")
    assert report.finish_dead(tmp_path) == ["e"]


def test_a_run_of_which_no_page_can_be_made_does_not_keep_others_from_theirs(tmp_path: Path) -> None:
    """Its failure has no task: the template of the page raises an error of its own for what is missing."""
    other = dead(tmp_path / "a")
    note = {**other._begun("h1"), "failed": {"step": "kernel", "why": "it panicked"}}
    (other.folder / "hosts" / "h1.json").write_text(json.dumps(note))
    dead(tmp_path / "b")
    assert report.finish_dead(tmp_path) == ["b"]


@as_root
def test_runs_of_other_users_are_left_alone(tmp_path: Path) -> None:
    other = dead(tmp_path / "theirs")
    strangers(other.folder)
    assert report.finish_dead(tmp_path) == []
    assert other.run()["state"] == "running"


def test_a_run_goes_on_when_the_link_to_the_latest_is_not_its_own(tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest" / "x").touch()
    found = dead(tmp_path / "run")
    assert found.run()["state"] == "running"
    assert sorted(path.name for path in found.folder.iterdir()) == ["fallen", "hosts", "run.json"]


def test_each_folder_is_a_new_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(run_dir, "private", lambda: tmp_path / "private")
    (tmp_path / "private").mkdir()
    folders = set()
    for _ in range(3):
        assert run_dir.settled() is None
        found = run_dir.settle(tmp_path / "reports", check=False)
        again = run_dir.settled()
        assert again is not None and again.folder == found.folder
        folders.add(found.folder)
        run_dir.leave()
    assert len(folders) == 3


def test_reports_of_dead_runs_are_written_by_the_next_run_and_by_report(
    ansible: Mapping[str, str], tmp_path: Path
) -> None:
    reports = tmp_path / "kernel-thp-reports"
    first, second = dead(reports / "first"), dead(reports / "second")
    play(ansible, tmp_path, {"h1": there(tmp_path)}, "validate", "--check")
    assert first.run()["state"] == "running", "check mode writes nothing"
    play(ansible, tmp_path, {"h1": there(tmp_path)}, "validate")
    assert first.run()["state"] == second.run()["state"] == "aborted"
    third = dead(reports / "third")
    (first.folder / "report.html").unlink()
    played = play(ansible, tmp_path, {}, "report", "-e", "thp_report_run=first")
    assert played.code == 0, played.output
    assert third.run()["state"] == "aborted"
    assert "h1" in (first.folder / "report.html").read_text()
    played = play(ansible, tmp_path, {}, "report", "-e", "thp_report_run=fourth")
    assert played.code != 0
    assert "there is no run in kernel-thp-reports/fourth" in played.output
