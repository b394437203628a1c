"""A batch that stops by itself: its second host waits for its reboot while the kernel of the first one panics.

Then a run that passes over a host that is off, with a pause after each batch.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from tests.fleet import expect, faults
from tests.fleet.balancer import Balancer
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

PANICS, OFF, WAITS = "alpha", "bravo", "charlie"
PAUSE = 30


def test_a_host_that_waits_does_not_start_a_kernel_that_panicked(
    fleet: Fleet, operator: Operator, folder: Path
) -> None:
    fleet.start(PANICS, WAITS)
    balancer = Balancer(folder / "balancer")
    member = fleet[PANICS]
    old = faults.console(member, f"Linux version {member.before.uname}")
    panics = faults.console(member, "Kernel panic - not syncing")
    faults.no_root(member)
    run = operator.start(
        "rollout",
        "panic while another host waits",
        (PANICS, WAITS),
        serial=(2,),
        variables=balancer.variables(),
        words=("-e", "thp_kernel_reboots=1"),
    )
    run.until(panics, "the kernel panicked")
    run.until(old, "the old kernel starts")
    member.vm.forgive()
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.results() == {PANICS: "rolled-back", WAITS: "rolled-back"}
    assert f"the host came back with {member.before.uname}" in outcome.failure(PANICS)[1]
    assert outcome.failure(WAITS) == ("kernel", f"not begun, because this run has failed on {PANICS}, and 0 may fail")
    assert outcome.states[WAITS].boot_id == fleet[WAITS].before.boot_id
    for name in (PANICS, WAITS):
        expect.rolled_back(fleet[name], outcome.states[name])
    # Of the two hosts, either may be first each time.
    calls = balancer.calls()
    assert sorted(calls[:2]) == [("drain", PANICS), ("drain", WAITS)]
    assert sorted(calls[2:]) == [("undrain", PANICS), ("undrain", WAITS)]


def test_a_host_that_is_off_stops_nobody_and_batches_have_a_pause(
    fleet: Fleet, operator: Operator, release: Release
) -> None:
    names = (PANICS, OFF, WAITS)
    fleet.start(*names)
    fleet[OFF].vm.power_off()
    own = {"thp_fleet_max_unreachable": 1, "thp_fleet_pause": PAUSE, "thp_preflight_connect_timeout": 10}
    run = operator.start("rollout", "a host that is off", names, serial=(1, 1, 1), words=("-e", json.dumps(own)))
    outcome = operator.finish(run)
    assert outcome.code == 2, "a run that left a host behind does not end well"
    assert outcome.report["state"] == "finished"
    assert outcome.results() == {PANICS: "done", WAITS: "done", OFF: "unreachable"}
    for name in (PANICS, WAITS):
        expect.rolled_out(fleet[name], outcome.states[name], release)
    ended, began = (outcome.host(PANICS)["ended"], outcome.host(OFF)["began"])
    pause = datetime.datetime.fromisoformat(began) - datetime.datetime.fromisoformat(ended)
    assert pause.total_seconds() >= PAUSE
