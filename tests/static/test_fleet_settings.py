"""What an operator's ansible.cfg says of all plays, and what would have a rollout do harm."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.static.plays import GONE, play, there


@pytest.mark.parametrize(
    ("playbook", "result"), [("rollout", "refused"), ("rollback", "unchanged"), ("validate", "supported")]
)
def test_a_host_does_not_fail_with_another_of_its_batch(
    ansible: Mapping[str, str], tmp_path: Path, playbook: str, result: str
) -> None:
    hosts = {"h1": GONE, "h2": there(tmp_path)}
    fatal = {**ansible, "ANSIBLE_ANY_ERRORS_FATAL": "true"}
    played = play(fatal, tmp_path, hosts, playbook, "-e", '{"fleet_serial": [2]}')
    assert played.code == 2
    assert played.results() == {"h1": "unreachable", "h2": result}


@pytest.mark.parametrize("strategy", ["free", "host_pinned"])
def test_the_verdict_comes_after_the_batch(ansible: Mapping[str, str], tmp_path: Path, strategy: str) -> None:
    hosts = dict.fromkeys(("h1", "h2"), there(tmp_path))
    own = {**ansible, "ANSIBLE_STRATEGY": strategy}
    played = play(own, tmp_path, hosts, "validate", "-v")
    assert played.code == 0
    assert played.said.count("2 hosts, none failed; report:") == 1
    assert played.report()["counts"] == {"supported": 2}
