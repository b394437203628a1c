"""A host whose sshd answers while nothing that writes to its disk ends: lost after `thp_fleet_step_timeout`."""

from __future__ import annotations

import re

from tests.fleet import expect, faults
from tests.fleet.hosts import Fleet
from tests.fleet.rollouts import Operator

NAME = "alpha"
# Longer than a step takes, and the run waits for it twice: for the installation, and to hold the host for a rollback.
STEP = 90


def test_a_host_whose_disk_does_not_answer_is_lost_and_restored_when_it_does(fleet: Fleet, operator: Operator) -> None:
    fleet.start(NAME)
    member = fleet[NAME]
    begun = faults.announced(member, "begun")
    run = operator.start("rollout", "the disk does not answer", (NAME,), variables={"thp_fleet_step_timeout": STEP})
    run.until(begun, "the disk freezes")
    # Unlike a machine that stops, this leaves the network, sshd and all that is in memory.
    member.vm.run("fsfreeze -f /")
    code = run.wait()
    member.vm.run("fsfreeze -u /")
    assert code == 2
    (host,) = run.report()["hosts"]
    assert host["result"] == "lost"
    assert host["failed"]["step"] in ("preflight", "kernel")
    assert re.search(rf"lost contact with the host: it has not answered within {STEP} s", host["failed"]["why"])
    outcome = operator.finish(operator.start("rollback", "the disk answers again", (NAME,)))
    assert outcome.code == 0
    assert outcome.results() == {NAME: "undone"}
    expect.rolled_back(member, outcome.states[NAME])
    assert outcome.states[NAME].boot_id == member.before.boot_id
