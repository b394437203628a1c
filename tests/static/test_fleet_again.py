"""What a run makes of hosts that earlier runs were through with, or left in the middle, held or out of service."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.static.plays import play
from tests.static.simulated import Host

DEFECT = "[ 1.0] WARNING: CPU: 0 PID: 1 at mm/huge_memory.c:1 f+0x1/0x2"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "h1")


def test_a_line_that_is_allowed_leaves_a_host_done(ansible: Mapping[str, str], tmp_path: Path, host: Host) -> None:
    host.rolled_out("done")
    host.be(log=DEFECT)
    variables = host.variables(gate_log_allowed=[re.escape(DEFECT)])
    played = play(ansible, tmp_path, {"h1": variables}, "rollout")
    assert played.results() == {"h1": "unchanged"}
    assert played.code == 0
    assert host.asked("record") == [], "nobody held it, and nothing was begun"
