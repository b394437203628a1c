"""Hosts that fail only after their soak has begun: a health command fails, a kernel panics, a host falls silent.

They are in service then, so the one that has to be rebooted is drained again. The fourth host of the batch is done, and
max_failed allows all of these failures, so the rollout comes to its end.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.fleet import expect, faults
from tests.fleet.balancer import Balancer
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

FAILING = UNHEALTHY, DYING, SILENT = "alpha", "bravo", "charlie"
HEALTHY = "delta"
COMMAND = "/usr/local/bin/healthy"
SECRET = "--token=quite-a-secret"
# Healthy before the host returns to service, and at the first check of the soak; unhealthy from then on. The files are
# in /run, so each boot starts again.
TWICE = (
    "[ ! -e /run/healthy-twice ] || exit 3",
    "[ ! -e /run/healthy-once ] || touch /run/healthy-twice",
    "touch /run/healthy-once",
)
SOAK = "kernel_thp.fleet.gate : Wait for the end of the soak"
SECONDS = 30
# Far longer than a host takes to panic and to return.
LONG = 900
SILENCE = 60


def test_hosts_that_fail_in_the_soak_are_rolled_back_and_the_other_one_is_done(
    fleet: Fleet, operator: Operator, release: Release, folder: Path
) -> None:
    fleet.start(*FAILING, HEALTHY)
    balancer = Balancer(folder / "balancer")
    for name in (*FAILING, HEALTHY):
        faults.program(fleet[name], COMMAND, *(TWICE if name == UNHEALTHY else ("exit 0",)))
    # Otherwise the panic parameter on the command line would be enough; sysctl.d overrides it here.
    fleet[DYING].vm.run("echo kernel.panic = 0 > /etc/sysctl.d/90-lab.conf; echo 0 > /proc/sys/kernel/panic")
    fleet[DYING].remember()
    run = operator.start(
        "rollout",
        "unhealthy during the soak",
        (*FAILING, HEALTHY),
        serial=(len(FAILING) + 1,),
        max_failed=len(FAILING),
        variables={
            **balancer.variables(),
            "thp_gate_health_command": [COMMAND, SECRET],
            "thp_gate_soak_seconds": SECONDS,
            "thp_gate_soak_interval": 5,
        },
        of_hosts={
            DYING: {"thp_gate_soak_seconds": LONG},
            SILENT: {
                "thp_gate_soak_seconds": LONG,
                "thp_gate_silence_timeout": SILENCE,
                "thp_rollback_return_timeout": SILENCE,
            },
        },
    )
    run.task(SOAK)
    fleet[SILENT].vm.freeze()
    dying = fleet[DYING]
    returns = faults.console(dying, f"Linux version {dying.before.uname}")
    faults.panic(dying)
    run.until(returns, "the old kernel starts")
    dying.vm.forgive()
    outcome = operator.finish(run)
    # With that many allowed the rollout does not stop, but it fails at its end.
    assert outcome.code == 2
    assert outcome.report["state"] == "finished"
    assert outcome.results() == {
        UNHEALTHY: "rolled-back",
        DYING: "rolled-back",
        SILENT: "lost",
        HEALTHY: "done",
    }
    step, why = outcome.failure(UNHEALTHY)
    assert step == "soak"
    match = re.search(r"after (\d+) s of soaking: the health command ended with 3", why)
    assert match is not None, why
    assert 4 <= int(match[1]) < SECONDS
    step, why = outcome.failure(DYING)
    assert (step, "the host has rebooted meanwhile" in why) == ("soak", True), why
    (took,) = (step["seconds"] for step in outcome.host(DYING)["steps"] if step["name"] == "soak")
    assert took < LONG, "the run waited for it although the reboot had ended its soak"
    step, why = outcome.failure(SILENT)
    match = re.search(r"the host was silent for (\d+) s", why)
    assert step == "soak" and match is not None, (step, why)
    assert SILENCE <= int(match[1]) < LONG, "the run waited for the end of its soak"
    assert [remark for remark in outcome.host(DYING)["facts"]["remarks"] if "sysctl.d sets kernel.panic = 0" in remark]
    for name in (UNHEALTHY, DYING):
        expect.rolled_back(fleet[name], outcome.states[name])
    expect.rolled_out(fleet[HEALTHY], outcome.states[HEALTHY], release)
    calls = {name: [action for action, host in balancer.calls() if host == name] for name in (*FAILING, HEALTHY)}
    assert calls[UNHEALTHY] == ["drain", "undrain", "drain", "undrain"], "it failed in service, and was rebooted"
    assert calls[DYING] == ["drain", "undrain"], "it had rebooted by itself, and nothing was left that interrupts it"
    assert calls[SILENT] == ["drain", "undrain"], "nobody knows what it runs"
    assert calls[HEALTHY] == ["drain", "undrain"]
    soak = outcome.host(HEALTHY)["facts"]["soak"]
    assert soak["seconds"] > SECONDS - 0.1
    written = [run.log, *(path for path in run.directory.rglob("*") if path.is_file())]
    assert [path for path in written if SECRET in path.read_text()] == []
