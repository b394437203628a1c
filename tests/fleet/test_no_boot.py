"""New kernels that nobody can reach, each for another reason: every host is back on its old kernel without help.

A last host has neither a driver for a disk nor for a network interface in the new kernel, and is not even rebooted.
"""

from __future__ import annotations

from pathlib import Path

from lab import image
from lab.snapshots import PROFILE
from tests.fleet import boots, expect, faults
from tests.fleet.hosts import BOTH_LOADERS, Fleet, Member
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

pytestmark = [BOTH_LOADERS]

# These end their boot by themselves, at once.
DRIVERLESS, BROKEN = ENDING = ("alpha", "charlie")
# These wait until a timer ends it.
ROOTLESS, HANGING, UNREACHABLE = WAITING = ("bravo", "delta", "echo")
LACKING = "foxtrot"
NAMES = tuple(sorted((*ENDING, *WAITING, LACKING)))
# After how long that timer does so; on the other hosts, so late that the run would not be patient enough.
TIMER, NEVER = 240, 7200
PATIENCE = 2400
# Six hosts on a machine with two processors can look like a lockup, and a panic would hide what is tested here.
OWN = {
    "thp_kernel_reboot_timeout": NEVER,
    "thp_rollback_return_timeout": 900,
    "thp_kernel_panic_on_lockup": False,
}
MOUNT = "udevadm wait -t 60 /dev/sda && mkfs.ext4 -q /dev/sda && mkdir -p /mnt/extra && mount /dev/sda /mnt/extra"


def attach_what_only_the_old_kernel_drives(member: Member, disk: Path) -> None:
    """Debian's kernel has drivers for this controller and this card, and a kernel for virtual machines has not."""
    controller = ("-device", "lsi53c895a,id=scsi", "-device", "scsi-hd,bus=scsi.0,drive=extra")
    drive = ("-drive", f"if=none,id=extra,format=raw,file={image.sparse(disk, 64)}")
    card = ("-netdev", "user,id=second,net=10.9.0.0/24,restrict=on", "-device", "rtl8139,netdev=second")
    member.vm.shut_down()
    member.restart(*drive, *controller, *card)
    member.settle(PROFILE)
    member.vm.run(MOUNT)


def test_a_kernel_that_does_not_answer_leads_back_to_the_old_one(
    fleet: Fleet, operator: Operator, release: Release, folder: Path
) -> None:
    fleet.start(*NAMES)
    boots.no_root_driver(fleet[DRIVERLESS])
    boots.wrong_root(fleet[ROOTLESS])
    boots.broken_fstab(fleet[BROKEN])
    boots.hanging_initramfs(fleet[HANGING])
    boots.no_network(fleet[UNREACHABLE], release.uname)
    attach_what_only_the_old_kernel_drives(fleet[LACKING], folder / "extra.img")
    for name in NAMES:
        fleet[name].remember()
    back = {name: faults.console(fleet[name], f"Linux version {fleet[name].before.uname}") for name in NAMES}
    run = operator.start(
        "rollout",
        "kernels that do not answer",
        NAMES,
        serial=(len(NAMES),),
        max_failed=len(NAMES),
        variables=OWN,
        of_hosts={name: {"thp_kernel_reboot_timeout": TIMER} for name in WAITING},
    )
    for name in (*ENDING, *WAITING):
        run.until(back[name], f"the old kernel of {name} starts", timeout=PATIENCE)
    outcome = operator.finish(run, timeout=PATIENCE)
    assert outcome.code == 2
    assert outcome.results() == dict.fromkeys(NAMES, "rolled-back")
    for name in NAMES:
        step, why = outcome.failure(name)
        assert step == "kernel", (name, step, why)
        expect.rolled_back(fleet[name], outcome.states[name])
        console = fleet[name].vm.console_text()
        assert "Kernel panic" not in console, f"{name} came back by a panic, not by what is tested here"
        assert (f"Linux version {release.uname}" in console) == (name != LACKING), (
            f"{name}: was its new kernel started?"
        )
        if name in ENDING:
            assert f"the host came back with {fleet[name].before.uname}" in why, name
        if name in WAITING:
            assert "the host did not come back after the reboot" in why, name
    why = outcome.failure(LACKING)[1]
    assert "has no driver for the file system at /mnt/extra (" in why and "sym53c8xx" in why, why
    assert "and none for the network interface" in why and "8139" in why, why
    assert not back[LACKING](), "it was rebooted although its new kernel lacks drivers"
