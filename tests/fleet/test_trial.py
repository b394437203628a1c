"""What brings a host back during the trial without a panic: systemd hangs on one, the kernel of the other one oopses.

Both happen in the soak, when nobody waits for the hosts, and the old kernel is the default.
"""

from __future__ import annotations

from pathlib import Path

from lab.snapshots import PROFILE
from tests.fleet import expect, faults, modules
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

HUNG, OOPSING = NAMES = ("alpha", "bravo")
SOAK = "kernel_thp.fleet.gate : Wait for the end of the soak"
# Far longer than a host takes to return.
LONG = 900
# By default, the watchdog of this machine does nothing when its time is up.
RESETS = ("-global", "ICH9-LPC.noreboot=false")
# The oops alone would kill one process, and the panic would halt.
CONTINUES = "kernel.panic_on_oops = 0\\nkernel.panic = 0\\n"


def test_a_hung_systemd_and_an_oops_end_the_trial(
    fleet: Fleet, operator: Operator, release: Release, folder: Path
) -> None:
    fleet.start(*NAMES)
    hung, oopsing = fleet[HUNG], fleet[OOPSING]
    hung.vm.shut_down()
    hung.restart(*RESETS)
    hung.settle(PROFILE)
    hung.remember()
    modules.send(oopsing, modules.build(release, folder / "module"))
    oopsing.vm.run(f"printf '{CONTINUES}' > /etc/sysctl.d/90-lab.conf && sysctl -q -p /etc/sysctl.d/90-lab.conf")
    oopsing.remember()
    run = operator.start(
        "rollout",
        "systemd hangs, the kernel oopses",
        NAMES,
        serial=(2,),
        max_failed=1,
        variables={"thp_gate_soak_seconds": LONG, "thp_gate_soak_interval": 5, "thp_kernel_watchdog_seconds": 30},
    )
    run.task(SOAK)
    returns = {name: faults.console(fleet[name], f"Linux version {fleet[name].before.uname}") for name in NAMES}
    faults.hang_systemd(hung)
    modules.oops(oopsing)
    for name, returned in returns.items():
        run.until(returned, f"the old kernel of {name} starts")
    assert "Kernel panic" not in hung.vm.console_text()
    assert "Kernel panic - not syncing: Fatal exception" in oopsing.vm.console_text()
    oopsing.vm.forgive()
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.results() == dict.fromkeys(NAMES, "rolled-back")
    for name in NAMES:
        step, why = outcome.failure(name)
        assert (step, "the host has rebooted meanwhile" in why) == ("soak", True), why
        expect.rolled_back(fleet[name], outcome.states[name])
