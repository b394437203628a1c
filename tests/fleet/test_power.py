"""Hosts that lose power: while the initramfs of the new kernel is made, after its install, and during its first boot.

The last host stays off, while another host of its batch waits.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.fleet import expect, faults
from tests.fleet.hosts import BOTH_LOADERS, Fleet, Member
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator, Outcome

pytestmark = [BOTH_LOADERS]

# The new kernel waits this long for its confirmation: enough for one reboot, not for two.
GIVES_UP = 180


@pytest.fixture
def member(fleet: Fleet) -> Member:
    fleet.durable = True
    fleet.refresh("alpha", "bravo")
    return fleet["alpha"]


def rollout(operator: Operator, title: str, member: Member, moment: Callable[[], bool]) -> Outcome:
    """Roll out, cut the power at a moment, and turn it on again."""
    run = operator.start("rollout", title, ("alpha", "bravo"))
    run.until(moment, "the power goes")
    member.vm.power_off()
    member.restart()
    return operator.finish(run)


def expect_rolled_back(outcome: Outcome, fleet: Fleet, member: Member) -> None:
    assert outcome.code == 2
    assert outcome.report["state"] == "stopped"
    assert outcome.results() == {"alpha": "rolled-back", "bravo": "not-reached"}
    assert outcome.failure("alpha")[0] == "kernel"
    assert outcome.states["alpha"].boot_id != member.before.boot_id
    expect.rolled_back(member, outcome.states["alpha"])
    expect.all_untouched(fleet, outcome.states, "bravo")


def test_while_the_initramfs_is_made(fleet: Fleet, member: Member, operator: Operator, release: Release) -> None:
    """The new kernel has an entry then. GRUB's plugin has made it the default, and ours has taken that back."""
    outcome = rollout(operator, "power lost during the install", member, faults.makes_initramfs(member))
    expect_rolled_back(outcome, fleet, member)
    assert "lost contact with the host" in outcome.failure("alpha")[1]
    assert f"Linux version {release.uname}" not in member.vm.console_text()


def test_between_install_and_reboot(fleet: Fleet, member: Member, operator: Operator, release: Release) -> None:
    outcome = rollout(operator, "power lost after install", member, faults.announced(member, "installed"))
    expect_rolled_back(outcome, fleet, member)
    assert "lost contact with the host" in outcome.failure("alpha")[1]
    # It was installed, on the disk as well, and had not been started.
    record = outcome.states["alpha"].record
    assert record is not None
    assert release.packages <= set(record["packages"]["added"])
    assert f"Linux version {release.uname}" not in member.vm.console_text()


def test_while_it_boots_for_the_first_time(fleet: Fleet, member: Member, operator: Operator, release: Release) -> None:
    """The host has no repository any more, which a rollback does not need."""
    faults.lose_repositories(member)
    moment = faults.console(member, f"Linux version {release.uname}")
    outcome = rollout(operator, "power lost during the reboot", member, moment)
    assert member.vm.run("ls /etc/yum.repos.d").text == ""
    expect_rolled_back(outcome, fleet, member)
    assert f"the host came back with {member.before.uname}" in outcome.failure("alpha")[1]


def test_a_host_that_stays_off_does_not_fail_another_one_of_its_batch(
    fleet: Fleet, member: Member, operator: Operator, release: Release
) -> None:
    """With one fork, nobody contacts the host that rebooted first until the run gives up the other one."""
    gone = fleet["bravo"]
    moment = faults.console(gone, f"Linux version {release.uname}")
    run = operator.start(
        "rollout",
        "power lost for good",
        ("alpha", "bravo"),
        serial=(2,),
        max_failed=1,
        variables={"thp_kernel_reboot_timeout": GIVES_UP, "thp_rollback_return_timeout": 60},
        words=("--forks", "1"),
    )
    run.until(moment, "the power goes")
    gone.vm.power_off()
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.results() == {"alpha": "done", "bravo": "lost"}
    expect.rolled_out(member, outcome.states["alpha"], release)
    step, why = outcome.failure("bravo")
    assert (step, "the host did not come back after the reboot" in why) == ("kernel", True), why
    gone.restart()
    assert gone.collect().uname == gone.before.uname
