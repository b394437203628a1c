"""The controller dies in the middle of a batch, and the same command is given again."""

from __future__ import annotations

import pytest

from lab.vm import BOOT_TIMEOUT
from tests.fleet import expect, faults
from tests.fleet.hosts import Fleet, Member
from tests.fleet.play import Run
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

NAMES, BATCH = ("alpha", "bravo", "charlie"), ("bravo", "charlie")
SOAK = "kernel_thp.fleet.gate : Wait for the end of the soak"
REBOOT = "kernel_thp.fleet.kernel : Reboot into the new kernel"
# The new kernel waits this long for its confirmation.
GIVES_UP = 180
# A worker finishes its present command on the host within this time.
COMMAND = 120


@pytest.fixture(scope="module")
def killed(fleet: Fleet, operator: Operator) -> Run:
    """A run that ended while its second batch was soaking."""
    fleet.start(*NAMES)
    run = operator.start(
        "rollout", "controller killed in the soak", NAMES, serial=(1, 2), variables={"thp_gate_soak_seconds": 60}
    )
    run.task(SOAK, times=2)
    run.kill()
    return run


def test_what_was_known_of_the_hosts_is_there(killed: Run, fleet: Fleet, release: Release) -> None:
    found = killed.report()
    assert found["state"] == "running"
    assert {host["host"]: host["result"] for host in found["hosts"]} == {"alpha": "done"} | dict.fromkeys(
        BATCH, "running"
    )
    expect.rolled_out(fleet["alpha"], fleet["alpha"].collect(), release)
    for name in BATCH:
        state = fleet[name].collect()
        assert (state.uname, state.held) == (release.uname, True)
        assert state.default is not None
        assert fleet[name].before.uname in state.default, "a host in the middle still has its old kernel as the default"


def test_the_same_command_continues_where_each_host_was(
    killed: Run, fleet: Fleet, operator: Operator, release: Release
) -> None:
    boots = {name: fleet[name].collect().boot_id for name in NAMES}
    outcome = operator.finish(operator.start("rollout", "the same again", NAMES, serial=(1, 2)))
    assert outcome.code == 0
    assert outcome.results() == {"alpha": "unchanged", **dict.fromkeys(BATCH, "done")}
    assert outcome.run.recap("alpha")["changed"] == 0
    for name in NAMES:
        expect.rolled_out(fleet[name], outcome.states[name], release)
        assert outcome.states[name].boot_id == boots[name], f"{name} was rebooted without need"
    # The report of the run that was killed is completed by the next one.
    found = killed.report()
    assert found["state"] == "aborted"
    assert {host["host"]: host["result"] for host in found["hosts"]} == {"alpha": "done"} | dict.fromkeys(
        BATCH, "interrupted"
    )


@pytest.fixture(scope="module")
def reboots(killed: Run, fleet: Fleet) -> Member:
    """A new host, rolled out to together with one that is done."""
    fleet.start("delta")
    fleet["alpha"].remember()
    return fleet["delta"]


def again(operator: Operator, title: str) -> Run:
    return operator.start("rollout", title, ("delta", "alpha"), variables={"thp_kernel_reboot_timeout": GIVES_UP})


def test_a_host_is_not_rebooted_for_a_controller_that_is_gone(
    reboots: Member, fleet: Fleet, operator: Operator
) -> None:
    run = again(operator, "controller killed as it orders the reboot")
    run.task(REBOOT)
    run.kill()
    faults.wait(lambda: not run.left(), COMMAND)
    state = reboots.collect()
    assert (state.boot_id, state.held) == (reboots.before.boot_id, True)
    assert state.record is not None
    assert state.record["phase"] == "armed"
    expect.untouched(fleet["alpha"], fleet["alpha"].collect())


def test_a_host_that_rebooted_for_a_controller_that_is_gone_returns_and_is_tried_again(
    reboots: Member, fleet: Fleet, operator: Operator, release: Release
) -> None:
    member, done = reboots, fleet["alpha"]
    booting = faults.console(member, "Linux version")
    tried = faults.console(member, f"Linux version {release.uname}")
    run = again(operator, "controller killed in the reboot")
    run.task(REBOOT)
    assert not booting(), "the run before had it reboot after all"
    run.until(tried, "the new kernel starts")
    run.kill()
    back = faults.console(member, f"Linux version {member.before.uname}")
    faults.wait(back, GIVES_UP + BOOT_TIMEOUT)
    member.vm.wait_ssh()
    assert member.collect().uname == member.before.uname
    expect.untouched(done, done.collect())
    outcome = operator.finish(again(operator, "the new kernel tried again"))
    assert outcome.code == 0
    assert outcome.results() == {"delta": "done", "alpha": "unchanged"}
    expect.rolled_out(member, outcome.states["delta"], release)
    assert outcome.states["alpha"].settings == done.before.settings
    assert outcome.states["alpha"].boot_id == done.before.boot_id
