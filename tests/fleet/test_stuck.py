"""Hosts whose sshd answers while nothing that writes to the disk ends: lost, and restored when the disk answers again.

To one of them the run logs in as root: `thp_fleet_step_timeout` ends it. On the other one sudo does not answer, for
which Ansible has a time-out of its own.
"""

from __future__ import annotations

from tests.fleet import expect, faults
from tests.fleet.hosts import Fleet
from tests.fleet.rollouts import Operator

AS_ROOT, BECOMES_ROOT = NAMES = ("alpha", "bravo")
# Longer than a step takes, and the run waits for it twice: for the installation, and to hold the host for a rollback.
STEP = 90
SILENT = f"lost contact with the host: it has not answered within {STEP} s"
# Or the above, if a task is past sudo when the disk freezes.
NO_SUDO = "lost contact with the host: Timeout (32s) waiting for privilege escalation prompt"
WHY = {AS_ROOT: (SILENT,), BECOMES_ROOT: (NO_SUDO, SILENT)}


def test_a_host_whose_disk_does_not_answer_is_lost_and_restored_when_it_does(fleet: Fleet, operator: Operator) -> None:
    fleet.start(*NAMES)
    begun = [faults.announced(fleet[name], "begun") for name in NAMES]
    run = operator.start(
        "rollout",
        "the disk does not answer",
        NAMES,
        serial=(2,),
        max_failed=2,
        variables={"thp_fleet_step_timeout": STEP},
        of_hosts={AS_ROOT: {"ansible_user": "root", "ansible_become": False}},
    )
    run.until(lambda: all(each() for each in begun), "the disks freeze")
    # Unlike a machine that stops, this leaves the network, sshd and all that is in memory.
    for name in NAMES:
        fleet[name].vm.run("fsfreeze -f /")
    code = run.wait()
    for name in NAMES:
        fleet[name].vm.run("fsfreeze -u /")
    assert code == 2
    for host in run.report()["hosts"]:
        assert host["result"] == "lost"
        assert host["failed"]["step"] in ("preflight", "kernel")
        assert host["failed"]["why"] in WHY[host["host"]]
    outcome = operator.finish(operator.start("rollback", "the disk answers again", NAMES, serial=(2,)))
    assert outcome.code == 0
    assert outcome.results() == dict.fromkeys(NAMES, "undone")
    for name in NAMES:
        expect.rolled_back(fleet[name], outcome.states[name])
        assert outcome.states[name].boot_id == fleet[name].before.boot_id
