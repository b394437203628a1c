"""What a run does with hosts that earlier runs finished, or left in the middle, held or out of service."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process

from tests.unit.plays import Played, play
from tests.unit.simulated import Host

# No process of this number was started at that time.
GONE_RUN = f"b0-1-{os.getpid()}"
DEFECT = "[ 1.0] WARNING: CPU: 0 PID: 1 at mm/huge_memory.c:1 f+0x1/0x2"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path / "h1")


def test_a_line_that_is_allowed_leaves_a_host_done(ansible: Mapping[str, str], tmp_path: Path, host: Host) -> None:
    host.rolled_out("done")
    host.be(log=DEFECT)
    variables = host.variables(thp_gate_log_allowed=[re.escape(DEFECT)])
    played = play(ansible, tmp_path, {"h1": variables}, "rollout")
    assert played.results() == {"h1": "unchanged"}
    assert played.code == 0
    assert host.calls("record") == [], "nobody held it, and nothing was begun"


@pytest.mark.parametrize("drained", [False, True])
def test_a_host_that_is_done_is_not_taken_back_but_reported(
    ansible: Mapping[str, str], tmp_path: Path, host: Host, drained: bool
) -> None:
    host.rolled_out("done", **({"drained": True} if drained else {}))
    host.be(log=DEFECT)
    before = host.record
    variables = host.variables(thp_preflight_drain_command=["drain"], thp_preflight_undrain_command=["undrain"])
    played = play(ansible, tmp_path, {"h1": variables}, "rollout")
    assert played.code == 2
    assert played.results() == {"h1": "failed"}
    why = played.failed("h1")["why"]
    assert "the host is not as it should be: WARNING: CPU: 0 PID: 1 at mm/huge_memory.c" in why
    assert "set thp_preflight_repair to true" in why
    assert ("the host is not in service" in why) == drained
    assert host.record == before
    assert not host.is_held
    for module in ("command", "boot", "packages", "profile"):
        assert host.calls(module) == [], "nothing is changed on it, and it is neither drained nor returned"


@pytest.mark.full
def test_a_host_that_is_done_is_taken_up_again_when_asked(
    ansible: Mapping[str, str], tmp_path: Path, host: Host
) -> None:
    """What is wrong is repaired by the rollout, or else the host is rolled back."""
    host.rolled_out("done")
    host.be(log=DEFECT)
    played = play(ansible, tmp_path, {"h1": host.variables(thp_preflight_repair=True)}, "rollout")
    assert played.results() == {"h1": "rolled-back"}
    assert host.record["phase"] == "rolled-back"


@pytest.mark.full
def test_a_host_whose_drain_fails_is_not_rebooted_in_service(
    ansible: Mapping[str, str], tmp_path: Path, host: Host
) -> None:
    """Taken up again, and running the new kernel, while its load stays on it."""
    host.rolled_out("done")
    host.be(log=DEFECT, says={"command": {"rc": 3, "failed": True}})
    hooks = {"thp_preflight_drain_command": ["drain"], "thp_preflight_undrain_command": ["undrain"]}
    played = play(ansible, tmp_path, {"h1": host.variables(thp_preflight_repair=True, **hooks)}, "rollout")
    assert played.results() == {"h1": "failed"}
    assert "the drain command ended with 3" in played.failed("h1")["why"]
    assert host.calls("boot") == []


@pytest.mark.full
def test_what_the_load_brings_fails_a_host_before_its_kernel_is_kept(
    ansible: Mapping[str, str], tmp_path: Path, host: Host
) -> None:
    """The kernel complains after the last look of the soak, while other hosts still soak."""
    host.be(loaded=DEFECT)
    played = play(ansible, tmp_path, {"h1": host.variables()}, "rollout")
    assert played.results() == {"h1": "rolled-back"}
    failed = played.failed("h1")
    assert (failed["step"], "WARNING: CPU: 0 PID: 1 at mm/huge_memory.c" in failed["why"]) == ("soak", True)
    assert "kept" not in [call["state"] for call in host.calls("boot")]


# Out of service

WAYLESS = "an earlier run took this host out of service; give the undrain command or role"


def play_all(
    ansible: Mapping[str, str], folder: Path, playbook: str, hosts: Mapping[str, Mapping[str, object]]
) -> Played:
    """Play it for all hosts at once, however many of them fail."""
    return play(
        ansible, folder, hosts, playbook, "-e", json.dumps({"thp_fleet_serial": ["100%"], "thp_fleet_max_failed": 9})
    )


@pytest.mark.full
def test_a_rollout_that_cannot_take_a_host_into_service_does_not_say_that_it_is(
    ansible: Mapping[str, str], tmp_path: Path
) -> None:
    hosts = {phase: Host(tmp_path / phase) for phase in ("booted", "done")}
    for phase, host in hosts.items():
        host.rolled_out(phase, drained=True)
    played = play_all(ansible, tmp_path, "rollout", {phase: host.variables() for phase, host in hosts.items()})
    assert played.results() == {"booted": "failed", "done": "failed"}
    for phase, host in hosts.items():
        assert WAYLESS in played.failed(phase)["why"]
        assert host.record["drained"]
        assert not host.is_held
    # Before it changes anything, so the host is rolled back completely.
    assert played.failed("booted")["step"] == "preflight"
    assert hosts["booted"].record["phase"] == "rolled-back"
    assert hosts["done"].record["phase"] == "done"


@pytest.mark.full
def test_a_rollback_that_cannot_take_a_host_into_service_does_not_say_that_it_is(
    ansible: Mapping[str, str], tmp_path: Path
) -> None:
    left, returning = Host(tmp_path / "left"), Host(tmp_path / "returning")
    left.rolled_out("done", drained=True)
    # One that is drained, and needs nothing to return.
    returning.rolled_out("done")
    drained = returning.variables(thp_preflight_drain_command=["drain"])
    played = play_all(ansible, tmp_path, "rollback", {"left": left.variables(), "returning": drained})
    assert played.results() == {"left": "failed", "returning": "undone"}
    assert WAYLESS in played.failed("left")["why"]
    assert [host.record["phase"] for host in (left, returning)] == ["rolled-back", "rolled-back"]
    assert [host.record.get("drained", False) for host in (left, returning)] == [True, False]
    assert not left.is_held and not returning.is_held
    assert len(returning.calls("command")) == 1


# Held


def test_a_host_that_is_done_is_not_left_to_a_run_that_is_gone(ansible: Mapping[str, str], tmp_path: Path) -> None:
    """Killed after it had recorded the rollout as done, and before it released the host."""
    ours, others = Host(tmp_path / "ours"), Host(tmp_path / "others")
    for host, controller in ((ours, process.controller()), (others, "elsewhere-1")):
        host.rolled_out("done")
        host.held_by(GONE_RUN, controller)
    played = play_all(ansible, tmp_path, "rollout", {"ours": ours.variables(), "others": others.variables()})
    assert played.results() == {"ours": "unchanged", "others": "refused"}
    # Of this one nobody here can know.
    assert f"run {GONE_RUN} of elsewhere-1 works on this host" in played.failed("others")["why"]
    assert (ours.is_held, others.is_held) == (False, True)
    assert [host.record["phase"] for host in (ours, others)] == ["done", "done"]


def test_a_host_with_nothing_to_undo_is_not_left_to_it_either(
    ansible: Mapping[str, str], tmp_path: Path, host: Host
) -> None:
    host.rolled_out("rolled-back")
    host.held_by(GONE_RUN, process.controller())
    played = play(ansible, tmp_path, {"h1": host.variables()}, "rollback")
    assert played.results() == {"h1": "unchanged"}
    assert not host.is_held
