"""A kernel that locks up in its trial: a processor takes interrupts, but schedules nothing any more."""

from __future__ import annotations

import re
from pathlib import Path

from tests.fleet import expect, faults, modules
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

NAME = "alpha"
SOAK = "kernel_thp.fleet.gate : Wait for the end of the soak"
# Far longer than a host takes to return.
LONG = 900
# As the stock kernel has it: a lockup is a line in the log.
CONTINUES = "kernel.softlockup_panic = 0\\nkernel.panic_on_rcu_stall = 0\\n"


def test_a_kernel_that_locks_up_panics_and_the_host_returns_to_its_old_one(
    fleet: Fleet, operator: Operator, release: Release, folder: Path
) -> None:
    fleet.start(NAME)
    member = fleet[NAME]
    modules.send(member, modules.build(release, folder / "module", modules.LOCKUP))
    member.vm.run(f"printf '{CONTINUES}' > /etc/sysctl.d/90-lab.conf && sysctl -q -p /etc/sysctl.d/90-lab.conf")
    member.remember()
    run = operator.start(
        "rollout",
        "the kernel locks up",
        (NAME,),
        variables={"thp_gate_soak_seconds": LONG, "thp_gate_soak_interval": 5},
    )
    run.task(SOAK)
    panics = faults.console(member, "Kernel panic - not syncing: ")
    returns = faults.console(member, f"Linux version {member.before.uname}")
    modules.lock_up(member)
    run.until(panics, "the kernel panics")
    run.until(returns, "the old kernel starts")
    # Whichever of its two watchdogs is first: that of RCU has only something to watch if somebody waits for it.
    assert re.search(r"Kernel panic - not syncing: (softlockup: hung tasks|RCU Stall)", member.vm.console_text())
    member.vm.forgive()
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.results() == {NAME: "rolled-back"}
    step, why = outcome.failure(NAME)
    assert (step, "the host has rebooted meanwhile" in why) == ("soak", True), why
    expect.rolled_back(member, outcome.states[NAME])
