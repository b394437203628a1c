"""A newer profile for the kernel that a host already has: rolled out without a reboot, and rolled back.

The tests build on each other.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab import newer_packages
from tests.fleet import expect
from tests.fleet.hosts import Fleet, Member, State
from tests.fleet.published import published as published
from tests.fleet.published import repository as repository
from tests.fleet.releases import Release
from tests.fleet.repositories import Published
from tests.fleet.rollouts import Operator

PROFILES = "tuned-profiles-thp-"


@pytest.fixture(scope="module")
def member(fleet: Fleet, operator: Operator, release: Release, published: Published) -> Member:
    """A host that is done; the newer package is published."""
    directory = newer_packages.newer_profiles()
    fleet.start("alpha")
    outcome = operator.finish(operator.start("rollout", "older profile", ("alpha",)))
    expect.rolled_out(fleet["alpha"], outcome.states["alpha"], release)
    fleet["alpha"].remember()
    published.publish(directory)
    return fleet["alpha"]


def apart_from_packages(state: State) -> dict[str, Any]:
    return {name: value for name, value in state.settings.items() if name != "packages"}


def test_a_newer_profile_comes_without_a_reboot(member: Member, operator: Operator) -> None:
    outcome = operator.finish(operator.start("rollout", "newer profile", ("alpha",)))
    assert outcome.code == 0
    assert outcome.results() == {"alpha": "done"}
    assert outcome.steps("alpha") == ["preflight", "kernel", "profile", "gate", "soak", "keep"]
    state = outcome.states["alpha"]
    before, now = set(member.before.settings["packages"]), set(state.settings["packages"])
    (older,), (newer,) = before - now, now - before
    assert older.startswith(PROFILES)
    assert newer == older.replace("-1.noarch", f"-1{newer_packages.DIST}.noarch")
    assert apart_from_packages(state) == apart_from_packages(member.before)
    assert state.boot_id == member.before.boot_id
    assert state.record is not None
    assert (state.record["phase"], state.record["previous"]["phase"]) == ("done", "done")
    assert newer in state.record["target"]["packages"]


def test_the_same_again_changes_nothing(member: Member, operator: Operator) -> None:
    outcome = operator.finish(operator.start("rollout", "newer profile again", ("alpha",)))
    assert outcome.results() == {"alpha": "unchanged"}
    assert outcome.run.recap("alpha")["changed"] == 0


def test_a_rollback_restores_the_older_profile(member: Member, operator: Operator) -> None:
    outcome = operator.finish(operator.start("rollback", "rollback to the older profile", ("alpha",)))
    assert outcome.code == 0
    assert outcome.results() == {"alpha": "undone"}
    expect.rolled_back(member, outcome.states["alpha"])
    assert outcome.states["alpha"].boot_id == member.before.boot_id
