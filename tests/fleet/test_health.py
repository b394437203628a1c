"""Hosts that fall ill only after their soak has begun: a health command fails, a kernel dies.

They are in service then, so the one that has to be rebooted is taken out once more. As many hosts may fail here, so the
rollout goes on.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.fleet import expect, faults
from tests.fleet.balancer import Balancer
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

ILL, DYING, WELL = "alpha", "bravo", "charlie"
COMMAND = "/usr/local/bin/healthy"
SECRET = "--token=quite-a-secret"
# Well when it is asked before it returns into service, and at the first look of the soak. With paths in /run each boot
# begins anew.
TWICE = (
    "[ ! -e /run/healthy-twice ] || exit 3",
    "[ ! -e /run/healthy-once ] || touch /run/healthy-twice",
    "touch /run/healthy-once",
)
SOAK = "kernel_thp.fleet.gate : Wait for the end of the soak"
SECONDS = 30
# Far longer than a host takes to die and to come back.
LONG = 900


def test_hosts_that_fall_ill_in_the_soak_go_back_and_the_next_one_is_done(
    fleet: Fleet, operator: Operator, release: Release, folder: Path
) -> None:
    fleet.start(ILL, DYING, WELL)
    balancer = Balancer(folder / "balancer")
    for name, lines in {ILL: TWICE, DYING: ("exit 0",), WELL: ("exit 0",)}.items():
        faults.program(fleet[name], COMMAND, *lines)
    # Else the command line would do, which outlasts systemd's start only where nobody says otherwise.
    fleet[DYING].vm.run("echo kernel.panic = 0 > /etc/sysctl.d/90-lab.conf; echo 0 > /proc/sys/kernel/panic")
    fleet[DYING].remember()
    run = operator.start(
        "rollout",
        "ill during the soak",
        (ILL, DYING, WELL),
        serial=(2, 1),
        max_failed=2,
        variables={
            **balancer.variables(),
            "gate_health_command": [COMMAND, SECRET],
            "gate_soak_seconds": SECONDS,
            "gate_soak_interval": 5,
        },
        of_hosts={DYING: {"gate_soak_seconds": LONG}},
    )
    run.task(SOAK)
    dying = fleet[DYING]
    returns = faults.console(dying, f"Linux version {dying.before.uname}")
    faults.panic(dying)
    run.until(returns, "the old kernel starts")
    dying.vm.forgive()
    outcome = operator.finish(run)
    # Within the limit it does not stop, and it does not end well either.
    assert outcome.code == 2
    assert outcome.report["state"] == "finished"
    assert outcome.results() == {ILL: "rolled-back", DYING: "rolled-back", WELL: "done"}
    step, why = outcome.failure(ILL)
    assert step == "soak"
    told = re.search(r"after (\d+) s of soaking: the health command ended with 3", why)
    assert told is not None, why
    assert 4 <= int(told[1]) < SECONDS
    step, why = outcome.failure(DYING)
    assert (step, "the host has rebooted meanwhile" in why) == ("soak", True), why
    (took,) = (step["seconds"] for step in outcome.host(DYING)["steps"] if step["name"] == "soak")
    assert took < LONG, "it was waited for although its soak was gone"
    assert [told for told in outcome.host(DYING)["facts"]["remarks"] if "sysctl.d sets kernel.panic = 0" in told]
    for name in (ILL, DYING):
        expect.put_back(fleet[name], outcome.states[name])
    expect.rolled_out(fleet[WELL], outcome.states[WELL], release)
    asked = {name: [action for action, host in balancer.calls() if host == name] for name in (ILL, DYING, WELL)}
    assert asked[ILL] == ["drain", "undrain", "drain", "undrain"], "it failed in service, and was rebooted"
    assert asked[DYING] == ["drain", "undrain"], "it had come back by itself, and nothing was left that interrupts it"
    assert asked[WELL] == ["drain", "undrain"]
    soak = outcome.host(WELL)["facts"]["soak"]
    assert soak["seconds"] > SECONDS - 0.1
    written = [run.log, *(path for path in run.directory.rglob("*") if path.is_file())]
    assert [path for path in written if SECRET in path.read_text()] == []
