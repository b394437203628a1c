"""A second rollout, to a newer release that was published meanwhile, and both kinds of rollback.

The tests build on each other: two hosts get the first release and then the second; one is rolled back by one rollout,
the other by both.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab import newer_packages
from tests.fleet import expect
from tests.fleet.hosts import Fleet, State
from tests.fleet.published import published as published
from tests.fleet.published import repository as repository
from tests.fleet.releases import KERNEL, Release
from tests.fleet.repositories import Published
from tests.fleet.rollouts import Operator

NAMES = ("alpha", "bravo")


@pytest.fixture(scope="module")
def second(release: Release) -> Release:
    version = f"{release.version.rpartition('-')[0]}-{newer_packages.SPIN}"
    kernels = {f"{name}-{version}.x86_64" for name in KERNEL}
    others = {name for name in release.packages if not name.startswith(KERNEL)}
    return replace(release, version=version, packages=frozenset(kernels | others))


@pytest.fixture(scope="module")
def first(fleet: Fleet, operator: Operator, release: Release, published: Published) -> dict[str, State]:
    """The states of the hosts before any rollout. Now they run the first release, and the second is published."""
    directory = newer_packages.second_release()
    fleet.start(*NAMES)
    found = {name: fleet[name].before for name in NAMES}
    outcome = operator.finish(operator.start("rollout", "first release", NAMES, serial=(2,)))
    assert outcome.results() == dict.fromkeys(NAMES, "done")
    for name in NAMES:
        expect.rolled_out(fleet[name], outcome.states[name], release)
        fleet[name].remember()
    published.publish(directory)
    return found


def test_the_newer_release_replaces_the_first(
    first: dict[str, State], fleet: Fleet, operator: Operator, release: Release, second: Release
) -> None:
    outcome = operator.finish(operator.start("rollout", "second release", NAMES))
    assert outcome.code == 0
    assert outcome.results() == dict.fromkeys(NAMES, "done")
    for name in NAMES:
        expect.rolled_out(fleet[name], outcome.states[name], second)
        record = outcome.states[name].record
        assert record is not None
        assert record["previous"]["target"]["uname"] == release.uname


def test_a_rollback_leads_to_the_first_release(first: dict[str, State], fleet: Fleet, operator: Operator) -> None:
    other = fleet["bravo"].collect()
    outcome = operator.finish(operator.start("rollback", "rollback to the first release", ("alpha",)))
    assert outcome.code == 0
    assert outcome.results() == {"alpha": "undone"}
    expect.rolled_back(fleet["alpha"], outcome.states["alpha"])
    assert fleet["bravo"].collect() == other


def test_a_rollback_to_the_original_leads_to_the_kernel_before_both(
    first: dict[str, State], fleet: Fleet, operator: Operator
) -> None:
    other = fleet["alpha"].collect()
    variables = {"thp_rollback_to": "original"}
    outcome = operator.finish(operator.start("rollback", "rollback to the original", ("bravo",), variables=variables))
    assert outcome.code == 0
    assert outcome.results() == {"bravo": "undone"}
    assert outcome.states["bravo"].settings == first["bravo"].settings
    assert not outcome.states["bravo"].held
    assert fleet["alpha"].collect() == other
