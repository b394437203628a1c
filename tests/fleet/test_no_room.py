"""A boot partition without enough room for the kernel: the rollout notices before the reboot."""

from __future__ import annotations

from lab.loaders import Grub, SystemdBoot
from tests.fleet import expect, faults
from tests.fleet.hosts import Fleet
from tests.fleet.rollouts import Operator

# The package says how much of /boot it needs, so dnf refuses. What goes to /efi, kernel-install copies, and fails.
NOTICED = {Grub: "more space on the /boot filesystem", SystemdBoot: "no boot entry for"}


def test_a_kernel_that_does_not_fit_is_rolled_back_without_a_reboot(fleet: Fleet, operator: Operator) -> None:
    fleet.start("alpha", "bravo")
    member = fleet["alpha"]
    faults.fill(member, member.host.loader.boot, leave_mib=8)
    member.remember()
    run = operator.start(
        "rollout", "no room for the kernel", ("alpha", "bravo"), variables={"thp_preflight_boot_free_mib": 1}
    )
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.results() == {"alpha": "rolled-back", "bravo": "not-reached"}
    step, why = outcome.failure("alpha")
    assert step == "kernel"
    assert NOTICED[type(member.host.loader)] in why
    assert outcome.states["alpha"].boot_id == member.before.boot_id
    expect.rolled_back(member, outcome.states["alpha"])
    expect.all_untouched(fleet, outcome.states, "bravo")
