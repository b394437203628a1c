"""A health command that fails only after the soak has begun. One host may fail here, so the rollout goes on."""

from __future__ import annotations

import re

from tests.fleet import expect, faults
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

COMMAND = "/usr/local/bin/healthy"
SECRET = "--token=quite-a-secret"
# A path in /run: each boot begins anew.
ONCE = ("[ ! -e /run/healthy-once ] || exit 3", "touch /run/healthy-once")


def test_a_host_that_falls_ill_in_the_soak_goes_back_and_the_next_one_is_done(
    fleet: Fleet, operator: Operator, release: Release
) -> None:
    fleet.start("alpha", "bravo")
    faults.program(fleet["alpha"], COMMAND, *ONCE)
    faults.program(fleet["bravo"], COMMAND, "exit 0")
    variables = {"gate_health_command": [COMMAND, SECRET], "gate_soak_seconds": 30, "gate_soak_interval": 5}
    run = operator.start("rollout", "ill during the soak", ("alpha", "bravo"), max_failed=1, variables=variables)
    outcome = operator.finish(run)
    # Within the limit it does not stop, and it does not end well either.
    assert outcome.code == 2
    assert outcome.report["state"] == "finished"
    assert outcome.results() == {"alpha": "rolled-back", "bravo": "done"}
    step, why = outcome.failure("alpha")
    assert step == "gate"
    told = re.search(r"after (\d+) s of soaking: the health command ended with 3", why)
    assert told is not None, why
    assert 4 <= int(told[1]) < 30
    expect.put_back(fleet["alpha"], outcome.states["alpha"])
    expect.rolled_out(fleet["bravo"], outcome.states["bravo"], release)
    soak = outcome.host("bravo")["facts"]["soak"]
    assert soak["seconds"] > 29.9
    written = [run.log, *(path for path in run.directory.rglob("*") if path.is_file())]
    assert [path for path in written if SECRET in path.read_text()] == []
