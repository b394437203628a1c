"""What a rollout finds out about a kernel by itself: a complaint in the log, and memory that is short in the soak.

The host with an OOM kill cannot be drained again, so it is not rebooted.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from tests.fleet import expect, faults, shortage
from tests.fleet.balancer import Balancer
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

KILLS, SHORT, COMPLAINS = NAMES = ("alpha", "bravo", "charlie")
SOAK = "kernel_thp.fleet.gate : Wait for the end of the soak"
SECONDS = 90
# By then the soak has read the counters it begins with, and has not looked at them again.
BEGUN = 20


def test_a_complaint_and_each_limit_of_the_soak_fail_their_host(
    fleet: Fleet, operator: Operator, release: Release, folder: Path
) -> None:
    fleet.start(*NAMES)
    balancer = Balancer(folder / "balancer")
    faults.blocked_task(fleet[COMPLAINS], release.uname)
    fleet[COMPLAINS].remember()
    run = operator.start(
        "rollout",
        "complaint, memory short in the soak",
        NAMES,
        serial=(3,),
        max_failed=3,
        variables={**balancer.variables(), "thp_gate_soak_seconds": SECONDS},
        # Otherwise it would panic, as nobody has connected yet.
        of_hosts={COMPLAINS: {"thp_kernel_panic_on_lockup": False}},
    )
    run.task(SOAK)
    time.sleep(BEGUN)
    balancer.refuse("drain", KILLS)
    shortage.oom_kill(fleet[KILLS])
    shortage.waiting(fleet[SHORT])
    shortage.no_huge_pages(fleet[SHORT])
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.results() == {KILLS: "failed", SHORT: "rolled-back", COMPLAINS: "rolled-back"}

    step, why = outcome.failure(COMPLAINS)
    assert step == "gate"
    assert re.search(r"the kernel complained: .*INFO: task \S+ blocked for more than", why), why

    step, why = outcome.failure(SHORT)
    assert step == "soak"
    assert re.search(r"memory was waited for in [\d.]+ % of the time, [\d.]+ % is allowed", why), why
    assert re.search(r"[\d.]+ % of \d+ faults got no huge page, 20\.0 % are allowed", why), why

    step, why = outcome.failure(KILLS)
    assert step == "soak"
    match = re.search(r"after (\d+) s of soaking: 1 processes were OOM-killed, 0 are allowed", why)
    assert match is not None, why
    assert int(match[1]) < SECONDS, "kills end the soak"
    assert outcome.host(KILLS)["failed"]["then"] == "the drain command ended with 1"

    for name in (SHORT, COMPLAINS):
        expect.rolled_back(fleet[name], outcome.states[name])
    calls = {name: [action for action, host in balancer.calls() if host == name] for name in NAMES}
    assert calls == {
        KILLS: ["drain", "undrain"],
        SHORT: ["drain", "undrain", "drain", "undrain"],
        COMPLAINS: ["drain", "undrain"],
    }
    # It was not rebooted in service; its next boot starts the old kernel.
    member = fleet[KILLS]
    assert (outcome.states[KILLS].uname, outcome.states[KILLS].held) == (release.uname, False)
    member.vm.reboot()
    assert member.collect().uname == member.before.uname
