"""A kernel that boots and then fails one selftest, on one of two hosts of a batch."""

from __future__ import annotations

import re

from tests.fleet import expect, faults
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

PROGRAM = "/usr/libexec/kselftests/thp/thp_knobs"
# Runs the real program, but reports its first test as failed.
FAILS = ('/root/thp_knobs "$@" | sed "s/^ok 1 /not ok 1 /"', "exit 1")
APPLIED = "kernel_thp.fleet.profile : Apply and verify the profile"


def test_one_failed_selftest_rolls_its_host_back_and_ends_the_rollout_after_the_batch(
    fleet: Fleet, operator: Operator, release: Release
) -> None:
    fleet.start("alpha", "bravo", "charlie")
    member = fleet["alpha"]
    run = operator.start(
        "rollout",
        "a selftest fails",
        ("alpha", "bravo", "charlie"),
        serial=(2, 1),
        of_hosts={"alpha": {"thp_gate_selftests": True}},
    )
    run.task(APPLIED)
    member.vm.run(f"mv {PROGRAM} /root/")
    faults.program(member, PROGRAM, *FAILS)
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.report["state"] == "stopped"
    assert outcome.results() == {"alpha": "rolled-back", "bravo": "done", "charlie": "not-reached"}
    step, why = outcome.failure("alpha")
    assert step == "gate"
    assert re.search(r"\bknobs\.\w+: fail", why), why
    expect.rolled_back(member, outcome.states["alpha"])
    expect.rolled_out(fleet["bravo"], outcome.states["bravo"], release)
    expect.all_untouched(fleet, outcome.states, "charlie")
