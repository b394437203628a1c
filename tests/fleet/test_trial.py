"""What ends the trial of a kernel that has answered: systemd hangs on one host and crashes on another, a kernel oopses.

All happen in the soak, when nobody waits for the hosts, and the old kernel is the default.
"""

from __future__ import annotations

from pathlib import Path

from lab.snapshots import PROFILE
from tests.fleet import expect, faults, modules
from tests.fleet.hosts import BOTH_LOADERS, Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

pytestmark = [BOTH_LOADERS]

HUNG, CRASHED, OOPSING = NAMES = ("alpha", "bravo", "charlie")
SOAK = "kernel_thp.fleet.gate : Wait for the end of the soak"
# Far longer than a host takes to return.
LONG = 900
# By default, the hardware watchdog of this machine (iTCO) does nothing when its time is up.
RESETS = ("-global", "ICH9-LPC.noreboot=false")
# The oops alone would kill one process, and the panic would halt.
CONTINUES = "kernel.panic_on_oops = 0\\nkernel.panic = 0\\n"


def test_a_systemd_that_hangs_or_crashes_and_an_oops_end_the_trial(
    fleet: Fleet, operator: Operator, release: Release, folder: Path
) -> None:
    fleet.start(*NAMES)
    hung, crashed, oopsing = (fleet[name] for name in NAMES)
    hung.vm.shut_down()
    hung.restart(*RESETS)
    hung.settle(PROFILE)
    hung.remember()
    modules.send(oopsing, modules.build(release, folder / "module", modules.OOPS))
    oopsing.vm.run(f"printf '{CONTINUES}' > /etc/sysctl.d/90-lab.conf && sysctl -q -p /etc/sysctl.d/90-lab.conf")
    oopsing.remember()
    run = operator.start(
        "rollout",
        "systemd hangs or crashes, the kernel oopses",
        NAMES,
        serial=(len(NAMES),),
        max_failed=len(NAMES),
        variables={"thp_gate_soak_seconds": LONG, "thp_gate_soak_interval": 5, "thp_kernel_watchdog_seconds": 30},
    )
    run.task(SOAK)
    returns = {name: faults.console(fleet[name], f"Linux version {fleet[name].before.uname}") for name in NAMES}
    faults.hang_systemd(hung)
    faults.crash_systemd(crashed)
    modules.oops(oopsing)
    for name, returned in returns.items():
        run.until(returned, f"the old kernel of {name} starts")
    for member in (hung, crashed):
        assert "Kernel panic" not in member.vm.console_text(), f"{member.name} came back by a panic"
    assert "Kernel panic - not syncing: Fatal exception" in oopsing.vm.console_text()
    oopsing.vm.forgive()
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.results() == dict.fromkeys(NAMES, "rolled-back")
    for name in NAMES:
        step, why = outcome.failure(name)
        assert (step, "the host has rebooted meanwhile" in why) == ("soak", True), why
        expect.rolled_back(fleet[name], outcome.states[name])
