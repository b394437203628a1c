"""Drain and undrain by roles of the operator, which have handlers; on one of two hosts the soak is killed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet import expect, offers, play
from tests.fleet.hosts import Fleet, Member
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

FINE, KILLED = NAMES = ("alpha", "bravo")
SOAK = "kernel_thp.fleet.gate : Wait for the end of the soak"
KILL = "timeout 50 sh -c \"until pkill -KILL -f '[A]nsiballZ_soak'; do sleep 1; done\""
LONG = 900
# Where Ansible looks for roles by default.
ROLES = play.HOME / "roles"
OUT, BACK = "lab_out_of_service", "lab_back_in_service"


def role(name: str, enabled: bool) -> Path:
    """Write a role that starts or stops a service; its handler notes which kernel runs."""
    folder = ROLES / name
    # Of a run that was killed.
    shutil.rmtree(folder, ignore_errors=True)
    service = {"name": "lab-port", "enabled": enabled, "state": "started" if enabled else "stopped"}
    handler = f"Note the kernel in {name}"
    for part, task in (
        ("tasks", {"name": "Change the service", "ansible.builtin.systemd_service": service, "notify": handler}),
        ("handlers", {"name": handler, "ansible.builtin.shell": f"uname -r >> /var/lib/{name}"}),
    ):
        (folder / part).mkdir(parents=True)
        (folder / part / "main.yml").write_text(json.dumps([task]))
    return folder


@pytest.fixture
def roles() -> Iterator[dict[str, str]]:
    folders = [role(OUT, enabled=False), role(BACK, enabled=True)]
    yield {"thp_preflight_drain_role": OUT, "thp_preflight_undrain_role": BACK}
    for folder in folders:
        shutil.rmtree(folder)


def kernels(member: Member, name: str) -> list[str]:
    """Return on which kernels the handler of a role was called."""
    return member.vm.run(f"cat /var/lib/{name}").text.split()


def test_roles_and_their_handlers_are_done_before_the_next_step(
    fleet: Fleet, operator: Operator, release: Release, roles: dict[str, str]
) -> None:
    fleet.start(*NAMES)
    for name in NAMES:
        offers.port(fleet[name])
        fleet[name].remember()
    soaks = {FINE: {"thp_gate_soak_seconds": 30}, KILLED: {"thp_gate_soak_seconds": LONG}}
    run = operator.start(
        "rollout", "roles for drain and undrain", NAMES, serial=(2,), max_failed=1, variables=roles, of_hosts=soaks
    )
    run.task(SOAK)
    fleet[KILLED].vm.run(KILL, timeout=60)
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.results() == {FINE: "done", KILLED: "rolled-back"}
    step, why = outcome.failure(KILLED)
    assert (step, "the job ended without a result: it was killed" in why) == ("soak", True), why
    old, new = fleet[FINE].before.uname, release.uname
    expect.rolled_out(fleet[FINE], outcome.states[FINE], release)
    assert (kernels(fleet[FINE], OUT), kernels(fleet[FINE], BACK)) == ([old], [new])
    expect.rolled_back(fleet[KILLED], outcome.states[KILLED])
    assert (kernels(fleet[KILLED], OUT), kernels(fleet[KILLED], BACK)) == ([old, new], [new, old])
    for name in NAMES:
        fleet[name].vm.run(offers.LISTENS, timeout=60)
