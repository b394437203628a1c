"""Kernels that lack what a host needs: one finds no root file system, the other has no driver for a network interface.

The first host is back on its old kernel without help, the second one is not even rebooted.
"""

from __future__ import annotations

from lab.snapshots import PROFILE
from tests.fleet import expect, faults
from tests.fleet.hosts import Fleet
from tests.fleet.rollouts import Operator

ROOTLESS, CARDLESS = NAMES = ("alpha", "bravo")
# For kernels that are installed from now on. Without a panic: the initramfs waits for that file system.
NO_ROOT = "sed -i 's,root=[^ ]*,root=PARTLABEL=nowhere,' /etc/kernel/cmdline"
# How many seconds dracut waits for it; its default is 180.
SOON = "rd.retry=20"
# A card that Debian's kernel has a driver for, and a kernel for virtual machines has not.
CARD = ("-netdev", "user,id=second,net=10.9.0.0/24,restrict=on", "-device", "rtl8139,netdev=second")


def test_what_a_kernel_lacks_does_not_lose_the_host(fleet: Fleet, operator: Operator) -> None:
    fleet.start(*NAMES)
    rootless, cardless = fleet[ROOTLESS], fleet[CARDLESS]
    rootless.vm.run(NO_ROOT)
    rootless.remember()
    cardless.vm.shut_down()
    cardless.restart(*CARD)
    cardless.settle(PROFILE)
    cardless.remember()
    run = operator.start(
        "rollout",
        "no root, no driver",
        NAMES,
        serial=(2,),
        max_failed=1,
        variables={"thp_kernel_trial_arguments": [SOON]},
    )
    run.until(faults.console(rootless, "Could not boot"), "the initramfs gives up")
    run.until(faults.console(rootless, f"Linux version {rootless.before.uname}"), "the old kernel starts")
    # The lab's small initramfs has no program that reboots, so its init ends, and that is a panic.
    rootless.vm.forgive()
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.results() == dict.fromkeys(NAMES, "rolled-back")
    for name in NAMES:
        assert outcome.failure(name)[0] == "kernel"
        expect.rolled_back(fleet[name], outcome.states[name])
    assert f"the host came back with {rootless.before.uname}" in outcome.failure(ROOTLESS)[1]
    assert "has no driver for the network interface" in outcome.failure(CARDLESS)[1]
    assert "8139" in outcome.failure(CARDLESS)[1]
    assert outcome.states[CARDLESS].boot_id == cardless.before.boot_id
