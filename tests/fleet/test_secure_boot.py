"""A host with Secure Boot that does not trust the kernel's certificate: the rollout notices before the reboot."""

from __future__ import annotations

import pytest

from lab import image, snapshots
from lab.host import Host
from lab.image import Kind
from lab.vm import Vm
from tests.fleet import expect
from tests.fleet.hosts import Fleet, Member
from tests.fleet.rollouts import Operator

NAME = "alpha"


@pytest.fixture(scope="module")
def kind() -> Kind:
    """The kind of host whose boot loader is signed."""
    return image.GRUB


@pytest.fixture(scope="module")
def member(fleet: Fleet) -> Member:
    """From no snapshot: the firmware is another one."""
    recipe = snapshots.MEMBER
    vm = Vm(image.build(fleet.kind), fleet.folder / NAME, NAME, recipe.cpus, recipe.memory_mib, secure_boot=True)
    found = fleet.members[NAME] = Member(NAME, vm, fleet.repository)
    vm.start()
    vm.wait_ssh()
    vm.run(snapshots.SETTLE)
    recipe.make(Host(vm))
    found.make_ready()
    return found


def test_a_kernel_that_the_firmware_would_refuse_is_never_booted(
    member: Member, fleet: Fleet, operator: Operator
) -> None:
    outcome = operator.finish(operator.start("survey", "survey with Secure Boot", (NAME,)))
    assert outcome.results() == {NAME: "ready"}
    assert any(remark.startswith("Secure Boot is enforced") for remark in outcome.host(NAME)["facts"]["remarks"])
    expect.all_untouched(fleet, outcome.states, NAME)
    run = operator.start("rollout", "untrusted certificate", (NAME,))
    assert run.wait() == 2
    # Before its state is collected: a host that hangs in the menu of GRUB has none.
    (found,) = run.report()["hosts"]
    assert found["result"] == "rolled-back", "it was rebooted into a kernel that its firmware refuses"
    outcome = operator.finish(run)
    step, why = outcome.failure(NAME)
    assert step == "kernel"
    assert "mokutil --import" in why
    assert outcome.states[NAME].boot_id == member.before.boot_id
    expect.rolled_back(member, outcome.states[NAME])
