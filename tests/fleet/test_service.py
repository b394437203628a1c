"""What the next run does with hosts that an earlier run left out of service, or could not roll back.

The tests build on each other and use one host.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lab import repo
from lab.snapshots import PROFILE
from tests.fleet import expect, repositories
from tests.fleet.balancer import Balancer
from tests.fleet.hosts import Fleet, Member, State
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator, Outcome

NAME = "alpha"
SOAK = "kernel_thp.fleet.gate : Wait for the end of the soak"


@pytest.fixture(scope="module")
def balancer(folder: Path) -> Balancer:
    return Balancer(folder / "balancer")


@pytest.fixture(scope="module")
def member(fleet: Fleet) -> Member:
    fleet.start(NAME)
    return fleet[NAME]


@pytest.fixture(scope="module")
def first(member: Member) -> State:
    """The state of the host before all tests."""
    return member.before


def play(
    operator: Operator, balancer: Balancer, playbook: str, title: str, **variables: object
) -> tuple[Outcome, State, list[str]]:
    """Run a playbook; return its outcome, the state of the host, and the calls to the balancer."""
    known = len(balancer.calls())
    given = {**balancer.variables(), **variables}
    outcome = operator.finish(operator.start(playbook, title, (NAME,), variables=given))
    return outcome, outcome.states[NAME], [action for action, _ in balancer.calls()[known:]]


def expect_out_of_service(state: State) -> None:
    """It is out of service but otherwise as before the rollout, and another run may take it over."""
    assert state.record is not None
    assert (state.record["phase"], state.record.get("drained")) == ("rolled-back", True)
    assert not state.held


def test_a_host_in_the_middle_is_rolled_back_if_it_cannot_continue(
    member: Member, first: State, balancer: Balancer, operator: Operator, fleet: Fleet, tmp_path: Path
) -> None:
    variables = {**balancer.variables(), "thp_gate_soak_seconds": 600}
    run = operator.start("rollout", "killed in the soak", (NAME,), variables=variables)
    run.task(SOAK)
    run.kill()
    assert balancer.calls() == [("drain", NAME), ("undrain", NAME)], "it soaks in service"
    with repo.served(repositories.with_foreign_metadata(tmp_path / "repo")) as url:
        member.host.use_repository(url)
        outcome, state, calls = play(operator, balancer, "rollout", "the repository is down")
    member.host.use_repository(fleet.repository)
    assert outcome.code == 2
    assert outcome.result(NAME) == "rolled-back"
    step, why = outcome.failure(NAME)
    assert (step, "the repository cannot be used" in why) == ("preflight", True), why
    expect.rolled_back(member, state)
    assert calls == ["drain", "undrain"]


def test_a_host_that_cannot_return_to_service_before_its_soak_is_rolled_back(
    member: Member, first: State, balancer: Balancer, operator: Operator
) -> None:
    balancer.refuse("undrain", NAME)
    outcome, state, calls = play(operator, balancer, "rollout", "undrain fails")
    assert outcome.code == 2
    assert outcome.result(NAME) == "failed"
    assert outcome.failure(NAME) == ("soak", "the undrain command ended with 1")
    assert state.settings == first.settings
    expect_out_of_service(state)
    # Again before its reboot: an undrain that failed may have brought some of its load back.
    assert calls == ["drain", "drain"]


def test_the_next_rollout_brings_it_back_into_service(
    member: Member, balancer: Balancer, operator: Operator, release: Release
) -> None:
    balancer.refuse("undrain", NAME, False)
    outcome, state, calls = play(operator, balancer, "rollout", "undrain is fixed")
    assert outcome.code == 0
    assert outcome.result(NAME) == "done"
    expect.rolled_out(member, state, release)
    assert calls == ["drain", "undrain"]


def test_without_its_old_kernel_a_host_that_works_is_left_alone(
    member: Member, first: State, balancer: Balancer, operator: Operator
) -> None:
    """By rollback.yml, and by a rollout that is to repair it and might have to roll it back."""
    entries = member.host.loader.entries
    member.vm.run(f"mkdir /root/entry && mv {entries}/lab-{first.uname}*.conf /root/entry/")
    for playbook, spoil in (("rollback", "true"), ("rollout", "tuned-adm off")):
        member.vm.run(spoil)
        member.remember()
        title = f"{playbook} without the old kernel"
        outcome, state, calls = play(operator, balancer, playbook, title, thp_preflight_repair=True)
        assert outcome.code == 2
        assert outcome.result(NAME) == "refused"
        assert f"the old kernel {first.uname} cannot be started any more" in outcome.failure(NAME)[1]
        now, before = state, member.before
        assert (now.settings, now.boot_id, now.record) == (before.settings, before.boot_id, before.record)
        assert not state.held
        assert calls == []
    member.vm.run(f"mv /root/entry/* {entries}/ && tuned-adm profile {PROFILE} thp-shrinker")


def test_a_rollback_that_leaves_a_host_out_of_service_records_it(
    member: Member, first: State, balancer: Balancer, operator: Operator
) -> None:
    balancer.refuse("undrain", NAME)
    outcome, state, calls = play(operator, balancer, "rollback", "undrain fails after the rollback")
    assert outcome.code == 2
    assert outcome.result(NAME) == "failed"
    assert "the undrain command ended with 1" in outcome.failure(NAME)[1]
    assert state.settings == first.settings
    expect_out_of_service(state)
    assert calls == ["drain"]


def test_the_next_rollback_brings_it_back_into_service_and_the_one_after_has_nothing_to_do(
    member: Member, first: State, balancer: Balancer, operator: Operator
) -> None:
    balancer.refuse("undrain", NAME, False)
    member.remember()
    outcome, state, calls = play(operator, balancer, "rollback", "undrain is fixed after the rollback")
    assert outcome.code == 0
    assert outcome.result(NAME) == "undone"
    assert calls == ["undrain"]
    assert state.boot_id == member.before.boot_id
    expect.rolled_back(member, state)
    outcome, state, calls = play(operator, balancer, "rollback", "nothing left to undo")
    assert outcome.code == 0
    assert outcome.result(NAME) == "unchanged"
    assert outcome.run.recap(NAME)["changed"] == 0
    assert calls == []
    expect.rolled_back(member, state)


def test_a_host_that_cannot_be_taken_out_of_service_gets_no_kernel(
    member: Member, balancer: Balancer, operator: Operator
) -> None:
    member.remember()
    balancer.refuse("drain", NAME)
    outcome, state, calls = play(operator, balancer, "rollout", "drain fails")
    assert outcome.code == 2
    assert outcome.result(NAME) == "rolled-back"
    assert outcome.failure(NAME) == ("preflight", "the drain command ended with 1")
    expect.rolled_back(member, state)
    assert state.boot_id == member.before.boot_id
    # Half a drain is undone as well.
    assert calls == ["undrain"]
