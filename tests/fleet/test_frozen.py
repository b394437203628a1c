"""A host that stops answering in the middle of a transaction: until it returns it is lost, whatever became of it."""

from __future__ import annotations

from tests.fleet import expect, faults
from tests.fleet.hosts import Fleet
from tests.fleet.rollouts import Operator

NAMES = ("alpha", "bravo", "charlie")
# When it goes on, so does the transaction, with nobody on the other end.
ENDED = "timeout 280 sh -c 'until grep -q \"phase.: .installed\" /var/lib/kernel-thp/rollout.json; do sleep 1; done'"


def test_a_host_that_freezes_is_lost_and_never_called_rolled_back(fleet: Fleet, operator: Operator) -> None:
    fleet.start(*NAMES)
    member = fleet["alpha"]
    installing = faults.announced(member, "installing")
    run = operator.start("rollout", "frozen while dnf works", NAMES, variables={"rollback_return_timeout": 60})
    run.until(installing, "the host freezes")
    member.vm.freeze()
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.report["state"] == "stopped"
    assert outcome.results() == {"alpha": "lost", "bravo": "not-reached", "charlie": "not-reached"}
    failed = outcome.host("alpha")["failed"]
    assert failed["step"] == "kernel"
    assert "lost contact with the host" in failed["why"]
    assert "the host does not answer" in failed["then"]
    expect.all_untouched(fleet, outcome.states, "bravo", "charlie")


def test_when_it_returns_rollback_puts_it_back_and_leaves_the_others_alone(fleet: Fleet, operator: Operator) -> None:
    member = fleet["alpha"]
    member.vm.thaw()
    member.vm.run(ENDED, timeout=300)
    outcome = operator.finish(operator.start("rollback", "rollback of the lost host", NAMES, serial=(3,)))
    assert outcome.code == 0
    assert outcome.results() == {"alpha": "undone", "bravo": "unchanged", "charlie": "unchanged"}
    expect.put_back(member, outcome.states["alpha"])
    for name in ("bravo", "charlie"):
        expect.refused(fleet[name], outcome.states[name])
