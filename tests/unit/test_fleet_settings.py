"""Settings of an operator's ansible.cfg that affect all plays, and that could make a rollout do harm."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.plays import GONE, play, there


@pytest.mark.parametrize(
    ("playbook", "result"), [("rollout", "refused"), ("rollback", "unchanged"), ("validate", "supported")]
)
def test_a_host_does_not_fail_with_another_of_its_batch(
    ansible: Mapping[str, str], tmp_path: Path, playbook: str, result: str
) -> None:
    hosts = {"h1": GONE, "h2": there(tmp_path)}
    fatal = {**ansible, "ANSIBLE_ANY_ERRORS_FATAL": "true"}
    played = play(fatal, tmp_path, hosts, playbook, "-e", '{"thp_fleet_serial": [2]}')
    assert played.code == 2
    assert played.results() == {"h1": "unreachable", "h2": result}


@pytest.mark.parametrize("strategy", ["free", "host_pinned"])
def test_the_verdict_comes_after_the_batch(ansible: Mapping[str, str], tmp_path: Path, strategy: str) -> None:
    hosts = dict.fromkeys(("h1", "h2"), there(tmp_path))
    own = {**ansible, "ANSIBLE_STRATEGY": strategy}
    played = play(own, tmp_path, hosts, "validate", "-v")
    assert played.code == 0
    assert played.output.count("2 hosts, none failed; report:") == 1
    assert played.report()["counts"] == {"supported": 2}


@pytest.mark.parametrize(
    "words",
    [
        ("--tags", "gate"),
        ("--skip-tags", "all"),
        ("--skip-tags", "untagged"),
        ("--start-at-task", "Evaluate the fleet"),
    ],
)
def test_a_run_of_which_tasks_are_left_out_does_not_end_well(
    ansible: Mapping[str, str], tmp_path: Path, words: tuple[str, str]
) -> None:
    played = play(ansible, tmp_path, {"h1": there(tmp_path)}, "validate", *words)
    assert played.code != 0
    assert f"{words[0]} " in played.output
    assert played.runs() == []


def test_tags_that_leave_out_no_task_are_no_obstacle(ansible: Mapping[str, str], tmp_path: Path) -> None:
    hosts = {"h1": there(tmp_path)}
    played = play(ansible, tmp_path, hosts, "validate", "--skip-tags", "slow", "--tags", "untagged,mine")
    assert played.code == 0
    assert played.results() == {"h1": "supported"}


@pytest.mark.parametrize(("its", "chosen", "runs"), [("kernel", "kernel", 1), ("kernel", "x", 0), ("always", "x", 1)])
def test_a_playbook_with_more_in_it_can_leave_out_the_whole_run(
    ansible: Mapping[str, str], tmp_path: Path, its: str, chosen: str, runs: int
) -> None:
    site = tmp_path / "site.yml"
    site.write_text(json.dumps([{"import_playbook": "kernel_thp.fleet.validate", "tags": its}]))
    played = play(ansible, tmp_path, {"h1": there(tmp_path)}, site, "--tags", chosen)
    assert played.code == 0
    assert len(played.runs()) == runs
    assert [run for run in played.runs() if played.results() != {"h1": "supported"}] == []
