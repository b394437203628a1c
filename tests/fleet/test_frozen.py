"""Hosts that freeze in the middle of a transaction: they are lost until they return, whatever happened to it.

Only the collection makes ssh notice that. One host is used without pipelining, which is Ansible's default: Ansible then
leaves files on the host, and its programs have a terminal and end with the connection. On the other host the
transaction continues after the thaw, without a controller.
"""

from __future__ import annotations

from tests.fleet import expect, faults
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

PLAIN, PIPELINED, OTHER = "alpha", "bravo", "charlie"
FROZEN = (PLAIN, PIPELINED)
NAMES = (*FROZEN, OTHER)


def test_hosts_that_freeze_are_lost_and_never_called_rolled_back(fleet: Fleet, operator: Operator) -> None:
    fleet.start(*NAMES)
    installing = {name: faults.announced(fleet[name], "installing") for name in FROZEN}
    run = operator.start(
        "rollout",
        "frozen while dnf works",
        NAMES,
        serial=(2, 1),
        variables={"thp_rollback_return_timeout": 60},
        of_hosts={PLAIN: {"ansible_pipelining": False}},
    )
    for name, moment in installing.items():
        run.until(moment, f"{name} freezes")
        fleet[name].vm.freeze()
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.report["state"] == "stopped"
    assert outcome.results() == {**dict.fromkeys(FROZEN, "lost"), OTHER: "not-reached"}
    for name in FROZEN:
        failed = outcome.host(name)["failed"]
        assert failed["step"] == "kernel"
        assert "lost contact with the host" in failed["why"]
        assert "the host does not answer" in failed["then"]
        # Ansible itself would have dropped it as unreachable, and the run would not have waited for it.
        assert outcome.run.recap(name)["unreachable"] == 0
    expect.all_untouched(fleet, outcome.states, OTHER)


def test_when_they_return_rollback_lets_the_transaction_end_and_restores_them(
    fleet: Fleet, operator: Operator, release: Release
) -> None:
    for name in FROZEN:
        fleet[name].vm.thaw()
    record = fleet[PIPELINED].collect().record
    assert record is not None
    assert record["phase"] == "installing", "the transaction has already ended"
    outcome = operator.finish(operator.start("rollback", "rollback of the lost hosts", NAMES, serial=(3,)))
    assert outcome.code == 0
    assert outcome.results() == {**dict.fromkeys(FROZEN, "undone"), OTHER: "unchanged"}
    for name in FROZEN:
        expect.rolled_back(fleet[name], outcome.states[name])
    # A rollback that did not wait for the transaction would find fewer packages.
    record = outcome.states[PIPELINED].record
    assert record is not None
    assert release.packages <= set(record["packages"]["added"])
    expect.refused(fleet[OTHER], outcome.states[OTHER])
