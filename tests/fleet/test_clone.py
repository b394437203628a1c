"""A virtual machine that was copied with its disk: the copy has the machine id and the record, but other hardware."""

from __future__ import annotations

from lab.snapshots import PROFILE
from tests.fleet import expect
from tests.fleet.hosts import Fleet
from tests.fleet.rollouts import Operator

NAME = "alpha"
# As a hypervisor gives them.
ORIGINAL, COPY = "0b4c6f0e-6a55-4f5b-8d0e-0f4ad4f3a001", "9d1f2c3b-1f0a-4c7e-9a55-5f6b7c8d9002"


def test_it_is_told_by_its_hardware_uuid(fleet: Fleet, operator: Operator) -> None:
    fleet.start(NAME)
    member = fleet[NAME]
    machine = member.vm.run("cat /etc/machine-id").text
    member.vm.shut_down()
    member.restart("-uuid", ORIGINAL)
    member.settle(PROFILE)
    member.remember()
    fails = {"thp_preflight_drain_command": ["/bin/false"]}
    outcome = operator.finish(operator.start("rollout", "the original", (NAME,), variables=fails))
    assert outcome.results() == {NAME: "rolled-back"}
    record = outcome.states[NAME].record
    assert record is not None
    assert record["machine"].split() == [machine, ORIGINAL]
    member.vm.shut_down()
    member.restart("-uuid", COPY)
    member.settle(PROFILE)
    member.remember()
    for playbook in ("survey", "rollback"):
        outcome = operator.finish(operator.start(playbook, f"{playbook} of the copy", (NAME,)))
        assert outcome.code == 2
        assert outcome.results() == {NAME: "refused"}
        why = outcome.failure(NAME)[1]
        assert f"is of machine {machine} {ORIGINAL}, this is {machine} {COPY}; move it away" in why
        expect.untouched(member, outcome.states[NAME])
