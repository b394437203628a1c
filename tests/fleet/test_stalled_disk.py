"""A disk stops answering while the new kernel boots: no read or write ends, and no timer of systemd helps."""

from __future__ import annotations

from tests.fleet import expect, faults
from tests.fleet.hosts import Fleet, Member
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

NAME = "alpha"
# Bytes a second; 0 is no limit. At one, a request for 4 KiB keeps the next one waiting for more than an hour.
STALLED, UNLIMITED = 1, 0
OTHER_LIMITS = ("bps_rd", "bps_wr", "iops", "iops_rd", "iops_wr")


def limit(member: Member, bps: int) -> None:
    member.vm.monitor.execute(
        "block_set_io_throttle", {"device": "disk", "bps": bps, **dict.fromkeys(OTHER_LIMITS, UNLIMITED)}
    )


def test_a_kernel_whose_disk_stalls_panics_and_the_host_returns_to_its_old_one(
    fleet: Fleet, operator: Operator, release: Release
) -> None:
    fleet.start(NAME)
    member = fleet[NAME]
    starts = faults.console(member, f"Linux version {release.uname}")
    panics = faults.console(member, "Kernel panic - not syncing: hung_task: blocked tasks")
    # Until then it has panicked and rebooted, so that is the reason, and not that nobody answers.
    patience = {"thp_kernel_reboot_timeout": 600}
    run = operator.start("rollout", "the disk stalls in the first boot", (NAME,), variables=patience)
    run.until(starts, "the new kernel starts")
    run.until(faults.console(member, "Reached target sysinit.target"), "the disk stalls")
    limit(member, STALLED)
    run.until(panics, "the kernel panics")
    # Before it reboots: the firmware reads the disk, too.
    limit(member, UNLIMITED)
    returns = faults.console(member, f"Linux version {member.before.uname}")
    run.until(returns, "the old kernel starts")
    member.vm.forgive()
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.results() == {NAME: "rolled-back"}
    step, why = outcome.failure(NAME)
    assert (step, f"the host came back with {member.before.uname}" in why) == ("kernel", True), why
    expect.rolled_back(member, outcome.states[NAME])
