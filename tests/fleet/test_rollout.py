"""What `make fleet` shows: a rollout to two hosts in two batches, and beside it one that fails on two hosts.

Of these, the canaries, the kernel of one panics and the drain of the other one fails. The budget allows both, but no
canary is well, so the host of the second batch must stay untouched. Both rollouts run at the same time, because an
emulated host keeps one core busy.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fleet import expect, faults
from tests.fleet.balancer import Balancer
from tests.fleet.hosts import Fleet
from tests.fleet.play import Run
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

GOOD = ("alpha", "bravo")
PANICS, STAYS, NEXT = FAILS = ("charlie", "delta", "echo")


@pytest.fixture(scope="module")
def balancer(folder: Path) -> Balancer:
    return Balancer(folder / "balancer")


@pytest.fixture(scope="module")
def rollout(fleet: Fleet, operator: Operator, balancer: Balancer) -> Run:
    """The rollout that succeeds, in progress."""
    fleet.start(*GOOD, *FAILS)
    variables = {**balancer.variables(), "thp_kernel_trial_arguments": [expect.FURTHER]}
    return operator.start("rollout", "good rollout", GOOD, serial=(1, 1), variables=variables)


def test_a_kernel_that_panics_and_a_drain_that_fails_are_rolled_back_and_end_the_rollout(
    rollout: Run, fleet: Fleet, operator: Operator, folder: Path
) -> None:
    member = fleet[PANICS]
    balancer = Balancer(folder / "balancer of those that fail")
    balancer.refuse("drain", STAYS)
    panics = faults.console(member, "Kernel panic - not syncing")
    faults.no_root(member)
    given = balancer.variables()
    run = operator.start("rollout", "two hosts fail", FAILS, serial=(2, 1), max_failed=2, variables=given)
    run.until(panics, "the kernel panicked")
    run.until(faults.console(member, f"Linux version {member.before.uname}"), "the old kernel starts")
    member.vm.forgive()
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.report["state"] == "stopped"
    assert outcome.results() == {PANICS: "rolled-back", STAYS: "rolled-back", NEXT: "not-reached"}
    step, why = outcome.failure(PANICS)
    assert step == "kernel"
    assert f"the host came back with {member.before.uname}" in why
    assert outcome.failure(STAYS) == ("preflight", "the drain command ended with 1")
    said = outcome.run.output()
    assert "2 hosts failed, 2 allowed; no host of the first batch is well: repair one, or name another one" in said
    assert f"{PANICS}: rolled-back, kernel failed" in said
    assert f"{STAYS}: rolled-back, preflight failed" in said
    assert balancer.calls()[0] == ("drain", PANICS)
    assert sorted(balancer.calls()[1:]) == [("undrain", PANICS), ("undrain", STAYS)]
    assert outcome.states[PANICS].boot_id != member.before.boot_id
    assert outcome.states[STAYS].boot_id == fleet[STAYS].before.boot_id
    for name in (PANICS, STAYS):
        expect.rolled_back(fleet[name], outcome.states[name])
    expect.all_untouched(fleet, outcome.states, NEXT)


def test_hosts_in_batches_get_the_kernel_and_keep_it(
    rollout: Run, fleet: Fleet, operator: Operator, balancer: Balancer, release: Release
) -> None:
    outcome = operator.finish(rollout)
    assert outcome.code == 0
    assert outcome.report["state"] == "finished"
    assert outcome.report["planned"] == list(GOOD)
    assert outcome.report["counts"] == {"done": len(GOOD)}
    for name in GOOD:
        expect.done_in_its_trial(outcome, fleet[name], release)
    # One batch after the other, and each host is drained once and returns before its soak.
    assert balancer.calls() == [(action, name) for name in GOOD for action in ("drain", "undrain")]
    first, second = (outcome.host(name) for name in GOOD)
    assert first["ended"] <= second["began"]
