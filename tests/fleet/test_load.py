"""What the new kernel and its load bring, compared with the host before the rollout; and a host that is done.

On the first host both kernels complain of the same, and its drain stops a service: it is done, and later runs leave it
alone. On the second one only the new kernel complains, in the soak, and its shutdown hangs. The third one lacks what it
had before.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from lab.snapshots import PROFILE
from tests.fleet import expect, faults, offers
from tests.fleet.hosts import Fleet, Member
from tests.fleet.play import Run
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator, Outcome

ALIKE, COMPLAINS, LACKS = NAMES = ("alpha", "bravo", "charlie")
SOAK = "kernel_thp.fleet.gate : Wait for the end of the soak"
LONG = 900
BLOCK = "/root/lab-blocked"
# As the kernel would have it: the disk of an emulated host is slow as well.
AFTERWARDS = "echo 120 > /proc/sys/kernel/hung_task_timeout_secs"
# Another program, and so another place.
OTHER = "cp $(command -v touch) /root/lab-write"
HOOKS = {
    "thp_preflight_drain_command": ["systemctl", "disable", "--now", "lab-port"],
    "thp_preflight_undrain_command": ["systemctl", "enable", "--now", "lab-port"],
}
OF_HOSTS: Mapping[str, Mapping[str, Any]] = {
    # Far less than any boot takes: three times its last one is the least that a host gets.
    ALIKE: {**HOOKS, "thp_kernel_reboot_timeout": 5},
    COMPLAINS: {"thp_gate_soak_seconds": LONG},
    LACKS: {"thp_gate_services_timeout": 20},
}


def blocks(member: Member) -> None:
    """Have a script make the kernel report a blocked task, at each boot if it is enabled."""
    faults.blocked_task(member, "*")
    member.vm.run("systemctl disable --quiet lab-blocked")
    faults.program(member, BLOCK, *faults.BLOCKED, AFTERWARDS)


@pytest.fixture(scope="module")
def first(fleet: Fleet, operator: Operator, release: Release) -> Outcome:
    """The rollout to all of them."""
    fleet.start(*NAMES)
    alike = fleet[ALIKE]
    blocks(alike)
    # Its last boot is one with the complaint, which takes longer than that of the snapshot.
    alike.vm.run("systemctl enable --quiet lab-blocked")
    alike.vm.reboot()
    alike.settle(PROFILE)
    offers.port(alike)
    blocks(fleet[COMPLAINS])
    offers.hanging(fleet[COMPLAINS], release.uname)
    lacks = fleet[LACKS]
    offers.mount(lacks, lacks.before.uname)
    offers.route(lacks, lacks.before.uname)
    offers.port(lacks, lacks.before.uname)
    offers.failing(lacks, release.uname)
    for name in NAMES:
        fleet[name].remember()
    run = operator.start("rollout", "what the load brings", NAMES, serial=(3,), max_failed=3, of_hosts=OF_HOSTS)
    run.task(SOAK)
    fleet[COMPLAINS].vm.run(BLOCK, timeout=300)
    return operator.finish(run)


def test_what_the_old_kernel_complained_of_as_well_fails_nobody(first: Outcome, fleet: Fleet, release: Release) -> None:
    """Nor does a service that the drain stops and the return starts, or a boot that takes longer than configured."""
    state = first.states[ALIKE]
    log = fleet[ALIKE].vm.run("journalctl -k -b -o cat --no-pager").text
    assert re.search(r"INFO: task touch:\d+ blocked for more than", log), "the new kernel complained"
    assert first.result(ALIKE) == "done", first.failure(ALIKE)
    expect.rolled_out(fleet[ALIKE], state, release)
    record = state.record or {}
    assert [line for line in record["before"]["complaints"] if line.startswith("INFO: task touch:")]
    assert record["before"]["boot_seconds"] > OF_HOSTS[ALIKE]["thp_kernel_reboot_timeout"]
    port = f"tcp port {offers.PORT}"
    assert port in record["before"]["services"]["sockets"]
    assert port not in record["while_drained"]["sockets"]
    fleet[ALIKE].vm.run(offers.LISTENS, timeout=60)


def test_what_the_kernel_complains_of_under_load_ends_the_soak(first: Outcome, fleet: Fleet) -> None:
    """The shutdown that leads back to the old kernel hangs, and is forced."""
    assert first.result(COMPLAINS) == "rolled-back"
    step, why = first.failure(COMPLAINS)
    assert step == "soak"
    match = re.search(r"after (\d+) s of soaking: the kernel complained: INFO: task touch:\d+ blocked", why)
    assert match is not None, why
    assert int(match[1]) < LONG
    expect.rolled_back(fleet[COMPLAINS], first.states[COMPLAINS])
    assert offers.HANG_TEXT in fleet[COMPLAINS].vm.console_text()


def test_what_a_host_offered_and_lacks_fails_it_before_it_returns_to_service(first: Outcome, fleet: Fleet) -> None:
    assert first.result(LACKS) == "rolled-back"
    step, why = first.failure(LACKS)
    assert step == "gate"
    lost = ["unit lab-failing.service has failed", "mount /srv is missing", "route default dev lo is missing"]
    lost.append(f"socket tcp port {offers.PORT} is missing")
    assert [sentence for sentence in lost if sentence not in why] == [], why
    expect.rolled_back(fleet[LACKS], first.states[LACKS])
    fleet[LACKS].vm.run(f"findmnt /srv && {offers.ROUTED} && {offers.LISTENS}")


def again(operator: Operator, title: str, **variables: object) -> Outcome:
    own = {**OF_HOSTS[ALIKE], **variables}
    run: Run = operator.start("rollout", title, (ALIKE,), of_hosts={ALIKE: own})
    return operator.finish(run)


def expect_reported(outcome: Outcome, member: Member, why: str) -> None:
    """It counts as failed, and is exactly as it was."""
    assert outcome.code == 2
    assert outcome.results() == {ALIKE: "failed"}
    assert re.search(rf"the host is not as it should be: .*{why}", outcome.failure(ALIKE)[1]), outcome.failure(ALIKE)
    now, before = outcome.states[ALIKE], member.before
    assert (now.settings, now.boot_id, now.record) == (before.settings, before.boot_id, before.record)
    assert not now.held
    assert outcome.run.recap(ALIKE)["changed"] == 0


def test_a_host_that_is_done_is_repaired_when_asked_and_not_before(
    first: Outcome, fleet: Fleet, operator: Operator, release: Release
) -> None:
    member = fleet[ALIKE]
    member.vm.run("tuned-adm off")
    member.remember()
    expect_reported(again(operator, "done, without its profile"), member, "profile")
    outcome = again(operator, "repair", thp_preflight_repair=True)
    assert outcome.results() == {ALIKE: "done"}
    state = outcome.states[ALIKE]
    assert state.boot_id == member.before.boot_id, "the kernel was kept already"
    assert state.settings["tuned"]["active"] == [f"{PROFILE} thp-shrinker"]
    assert (state.record or {})["phase"] == "done"


def test_a_host_that_is_done_and_complains_later_is_not_taken_back(
    first: Outcome, fleet: Fleet, operator: Operator
) -> None:
    member = fleet[ALIKE]
    lines = [line.replace("touch /run/lab/file", "/root/lab-write /run/lab/file") for line in faults.BLOCKED]
    # The first complaint is still in the log.
    lines = [line.replace("'blocked for more than'", "'lab-write:.* blocked for more than'") for line in lines]
    faults.program(member, "/root/lab-later", OTHER, *lines, AFTERWARDS)
    member.vm.run("/root/lab-later", timeout=300)
    member.remember()
    expect_reported(again(operator, "done, complains later"), member, r"INFO: task lab-write:\d+ blocked")
