"""What `make fleet` shows: a rollout to three hosts in two batches, and meanwhile two that fail on a fourth host.

A fifth host is in the second batch of those that fail, which must not touch it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import repo
from tests.fleet import expect, faults, repositories
from tests.fleet.balancer import Balancer
from tests.fleet.hosts import Fleet
from tests.fleet.play import Run
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

CANARY, SECOND = "alpha", ("bravo", "charlie")
GOOD = (CANARY, *SECOND)
FAILING, NEXT = "delta", "echo"
FAILS = (FAILING, NEXT)
# No root file system, and no program to start without one.
PANIC = {"kernel_trial_arguments": ["rdinit=/nonexistent", "root="]}


@pytest.fixture(scope="module")
def balancer(folder: Path) -> Balancer:
    return Balancer(folder / "balancer")


@pytest.fixture(scope="module")
def rollout(fleet: Fleet, operator: Operator, balancer: Balancer) -> Run:
    """The good one, under way."""
    fleet.start(*GOOD, *FAILS)
    return operator.start("rollout", "good rollout", GOOD, serial=(1, 2), variables=balancer.variables())


def test_a_repository_that_somebody_else_signed_is_refused(
    rollout: Run, fleet: Fleet, operator: Operator, tmp_path: Path
) -> None:
    with repo.served(repositories.with_foreign_metadata(tmp_path / "repo")) as url:
        fleet[FAILING].host.use_repository(url)
        outcome = operator.finish(operator.start("rollout", "index signed by somebody else", FAILS))
    fleet[FAILING].host.use_repository(fleet.repository)
    assert outcome.code == 2
    assert outcome.report["state"] == "stopped"
    assert outcome.results() == {FAILING: "refused", NEXT: "not-reached"}
    step, why = outcome.failure(FAILING)
    assert step == "preflight"
    assert "the repository cannot be used" in why
    assert "Bad GPG signature" in why
    assert f"1 host failed, 0 allowed; {FAILING}: refused, preflight failed" in outcome.run.output()
    expect.refused(fleet[FAILING], outcome.states[FAILING])
    expect.all_untouched(fleet, outcome.states, NEXT)


def test_a_kernel_that_panics_leads_back_to_the_old_one(rollout: Run, fleet: Fleet, operator: Operator) -> None:
    member = fleet[FAILING]
    panics = faults.console(member, "Kernel panic - not syncing")
    run = operator.start("rollout", "kernel panics at boot", FAILS, of_hosts={FAILING: PANIC})
    run.until(panics, "the kernel panicked")
    run.until(faults.console(member, f"Linux version {member.before.uname}"), "the old kernel starts")
    member.vm.forgive()
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.report["state"] == "stopped"
    assert outcome.results() == {FAILING: "rolled-back", NEXT: "not-reached"}
    step, why = outcome.failure(FAILING)
    assert step == "kernel"
    assert f"the host came back with {member.before.uname}" in why
    assert outcome.states[FAILING].boot_id != member.before.boot_id
    expect.rolled_back(member, outcome.states[FAILING])
    expect.all_untouched(fleet, outcome.states, NEXT)


def test_three_hosts_in_two_batches_get_the_kernel_and_keep_it(
    rollout: Run, fleet: Fleet, operator: Operator, balancer: Balancer, release: Release
) -> None:
    outcome = operator.finish(rollout)
    assert outcome.code == 0
    assert outcome.report["state"] == "finished"
    assert outcome.report["planned"] == list(GOOD)
    assert outcome.report["counts"] == {"done": 3}
    for name in GOOD:
        expect.rolled_out(fleet[name], outcome.states[name], release)
        after = outcome.host(name)["facts"]["after"]
        assert (after["uname"], after["verdict"]) == (release.uname, "supported")
        assert outcome.steps(name) == ["preflight", "kernel", "profile", "gate", "soak", "keep"]
    # Out of service one batch after the other, and each host once: it is back before its soak.
    calls = balancer.calls()
    assert calls[:2] == [("drain", CANARY), ("undrain", CANARY)]
    assert sorted(calls[2:]) == sorted((action, name) for action in ("drain", "undrain") for name in SECOND)
    assert all(calls.index(("drain", name)) < calls.index(("undrain", name)) for name in SECOND)
    assert all(outcome.host(CANARY)["ended"] <= outcome.host(name)["began"] for name in SECOND)
