"""The life of a fleet: check mode, a rollout with selftests, the same again, validation, an update, a rollback.

The tests build on each other.
"""

from __future__ import annotations

from typing import Any

import pytest

from lab import upstream
from lab.snapshots import LARGE_MEMBER, PROFILE
from tests.fleet import expect
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator, Outcome

NAMES = ("alpha", "bravo")
OURS = f"{PROFILE} thp-shrinker"
# A selftest makes the OOM killer kill this program; nothing else in a rollout does.
KILLED = "journalctl -k -b -o cat --no-pager | grep -c 'Killed process .*(thp_oom)'"


@pytest.fixture(scope="module", autouse=True)
def hosts(fleet: Fleet) -> None:
    # The selftests run on alpha, which is as large as in the other suites.
    fleet.start("alpha", recipe=LARGE_MEMBER)
    fleet.start("bravo")


def rollout(operator: Operator, title: str) -> Outcome:
    return operator.finish(operator.start("rollout", title, NAMES, of_hosts={"alpha": {"thp_gate_selftests": True}}))


def expect_unchanged(outcome: Outcome, fleet: Fleet, result: str) -> None:
    """Nothing was changed, by Ansible's count and by the hosts' states."""
    assert outcome.code == 0
    assert outcome.results() == dict.fromkeys(NAMES, result)
    for name in NAMES:
        assert outcome.run.recap(name)["changed"] == 0
        now, before = outcome.states[name], fleet[name].before
        assert (now.settings, now.boot_id, now.record) == (before.settings, before.boot_id, before.record)
        assert not now.held


def test_check_mode_shows_what_would_happen_and_changes_nothing(
    fleet: Fleet, operator: Operator, release: Release
) -> None:
    run = operator.start("rollout", "what would happen", NAMES, words=("--check", "--diff"))
    assert run.wait() == 0
    assert not run.reported()
    for name in NAMES:
        expect.refused(fleet[name], fleet[name].collect())
    output = run.output()
    assert [name for name in release.packages if f"+{name}" not in output] == []
    assert f"once: {release.uname}" in output


def test_rollout_with_selftests(fleet: Fleet, operator: Operator, release: Release) -> None:
    outcome = rollout(operator, "with selftests on alpha")
    assert outcome.code == 0
    assert outcome.results() == dict.fromkeys(NAMES, "done")
    for name in NAMES:
        expect.rolled_out(fleet[name], outcome.states[name], release)
    assert int(fleet["alpha"].vm.run(KILLED, check=False).text) > 0
    assert int(fleet["bravo"].vm.run(KILLED, check=False).text) == 0


@pytest.fixture(scope="module")
def before(fleet: Fleet) -> dict[str, dict[str, Any]]:
    """The settings of the hosts before the rollout. Later tests compare with the state after it."""
    found = {name: fleet[name].before.settings for name in NAMES}
    for name in NAMES:
        fleet[name].remember()
    return found


def test_the_same_again_changes_nothing(before: dict[str, Any], fleet: Fleet, operator: Operator) -> None:
    expect_unchanged(rollout(operator, "the same again"), fleet, "unchanged")


def test_validate_evaluates_and_changes_nothing(before: dict[str, Any], fleet: Fleet, operator: Operator) -> None:
    outcome = operator.finish(operator.start("validate", "validate", NAMES))
    expect_unchanged(outcome, fleet, "supported")


def test_validate_finds_a_host_that_is_not_as_it_should_be(
    before: dict[str, Any], fleet: Fleet, operator: Operator
) -> None:
    fleet["bravo"].vm.run("tuned-adm off")
    outcome = operator.finish(operator.start("validate", "validate without a profile", NAMES))
    fleet["bravo"].vm.run(f"tuned-adm profile {OURS} && tuned-adm verify")
    assert outcome.code == 2
    assert outcome.results() == {"alpha": "supported", "bravo": "unsupported"}
    assert "profile" in outcome.failure("bravo")[1]


def test_a_kernel_that_the_distribution_installs_later_does_not_become_the_default(
    before: dict[str, Any], fleet: Fleet, operator: Operator, release: Release
) -> None:
    """By kernel-install, as a package of the distribution would, and of a higher version."""
    member = fleet["alpha"]
    newer = upstream.install(member.vm)
    listed = member.vm.run(f"ls {member.host.loader.entries}").text
    assert f"lab-{newer}" in listed
    member.vm.run(f"systemd-analyze compare-versions {newer} gt {release.uname}")
    member.vm.reboot()
    member.settle(OURS)
    state = member.collect()
    assert state.uname == release.uname
    assert state.default == member.before.default
    member.remember()
    expect_unchanged(operator.finish(operator.start("validate", "after a kernel update", NAMES)), fleet, "supported")
    expect_unchanged(rollout(operator, "rollout after a kernel update"), fleet, "unchanged")


def without(settings: dict[str, Any], uname: str) -> dict[str, Any]:
    """Return settings of a host as if a kernel were not there."""
    boot = settings["boot"]
    kept = {
        part: {name: value for name, value in boot[part].items() if uname not in name} for part in ("entries", "files")
    }
    modules = [name for name in settings["modules"] if name != uname]
    return {**settings, "boot": {**boot, **kept}, "modules": modules}


def test_rollback_undoes_all_of_it_and_nothing_else(before: dict[str, Any], fleet: Fleet, operator: Operator) -> None:
    newer = upstream.newest()[1]
    outcome = operator.finish(operator.start("rollback", "rollback", NAMES, serial=(2,)))
    assert outcome.code == 0
    assert outcome.results() == dict.fromkeys(NAMES, "undone")
    assert outcome.states["bravo"].settings == before["bravo"]
    # A kernel that somebody else installed later stays.
    found = outcome.states["alpha"].settings
    assert newer in found["modules"]
    assert without(found, newer) == before["alpha"]
    for name in NAMES:
        record = outcome.states[name].record
        assert record is not None
        assert record["phase"] == "rolled-back"
        assert not outcome.states[name].held
