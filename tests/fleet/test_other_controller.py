"""Ctrl-C ends a run in its soak, and another controller takes its hosts over: one goes forward, the other one back.

The tests build on each other.
"""

from __future__ import annotations

import time

import pytest

from tests.fleet import expect
from tests.fleet.hosts import Fleet
from tests.fleet.play import Run
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

FORWARD, BACK = NAMES = ("alpha", "bravo")
SOAK = "kernel_thp.fleet.gate : Wait for the end of the soak"
HOLDER = 'python3 -c \'import json; print(json.load(open("/var/lib/kernel-thp/holder.json"))["run"])\''


@pytest.fixture(scope="module")
def interrupted(fleet: Fleet, operator: Operator) -> Run:
    fleet.start(*NAMES)
    run = operator.start("rollout", "Ctrl-C in the soak", NAMES, serial=(2,), variables={"thp_gate_soak_seconds": 30})
    run.task(SOAK)
    # Once or more often.
    run.interrupt()
    time.sleep(1)
    run.interrupt()
    assert run.wait(timeout=120) != 0
    return run


def holder(fleet: Fleet, name: str) -> str:
    return fleet[name].vm.run(HOLDER).text


def test_ctrl_c_leaves_the_hosts_where_they_are(interrupted: Run, fleet: Fleet, release: Release) -> None:
    found = interrupted.report()
    assert found["state"] == "running", "without a verdict"
    assert {host["host"]: host["result"] for host in found["hosts"]} == dict.fromkeys(NAMES, "running")
    for name in NAMES:
        state = fleet[name].collect()
        assert (state.uname, state.held) == (release.uname, True)
        assert state.default is not None
        assert fleet[name].before.uname in state.default, "a host in the middle still has its old kernel as the default"


@pytest.mark.parametrize(("playbook", "name"), [("rollout", FORWARD), ("rollback", BACK)])
def test_another_controller_does_not_take_a_host_by_itself(
    interrupted: Run, fleet: Fleet, operator: Operator, playbook: str, name: str
) -> None:
    before = fleet[name].collect()
    outcome = operator.finish(operator.start(playbook, f"{playbook} from elsewhere", (name,), elsewhere=True))
    assert outcome.code == 2
    # Not refused, which is for hosts that are as they should be.
    assert outcome.results() == {name: "failed"}
    assert f"run {holder(fleet, name)} of " in outcome.failure(name)[1]
    assert outcome.states[name] == before


def test_another_controller_continues_with_the_name_of_the_run(
    interrupted: Run, fleet: Fleet, operator: Operator, release: Release
) -> None:
    boot_id = fleet[FORWARD].collect().boot_id
    own = {"thp_preflight_instead_of": holder(fleet, FORWARD)}
    run = operator.start("rollout", "continued from elsewhere", (FORWARD,), variables=own, elsewhere=True)
    outcome = operator.finish(run)
    assert outcome.code == 0
    assert outcome.results() == {FORWARD: "done"}
    assert outcome.states[FORWARD].boot_id == boot_id, "rebooted without need"
    expect.rolled_out(fleet[FORWARD], outcome.states[FORWARD], release)


def test_another_controller_rolls_back_with_the_name_of_the_run(
    interrupted: Run, fleet: Fleet, operator: Operator
) -> None:
    own = {"thp_rollback_instead_of": holder(fleet, BACK)}
    run = operator.start("rollback", "rolled back from elsewhere", (BACK,), variables=own, elsewhere=True)
    outcome = operator.finish(run)
    assert outcome.code == 0
    assert outcome.results() == {BACK: "undone"}
    expect.rolled_back(fleet[BACK], outcome.states[BACK])
