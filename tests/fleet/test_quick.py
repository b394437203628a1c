"""What `make fleet QUICK=1` shows: a rollout to one host, and beside it one to a host whose new kernel panics."""

from __future__ import annotations

from pathlib import Path

from tests.fleet import expect, faults
from tests.fleet.balancer import Balancer
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

WELL, PANICS = "alpha", "bravo"


def test_a_host_gets_the_kernel_and_keeps_it_and_one_that_panics_is_rolled_back(
    fleet: Fleet, operator: Operator, release: Release, folder: Path
) -> None:
    fleet.start(WELL, PANICS)
    balancer = Balancer(folder / "balancer")
    variables = {**balancer.variables(), "thp_kernel_trial_arguments": [expect.FURTHER]}
    member = fleet[PANICS]
    old = faults.console(member, f"Linux version {member.before.uname}")
    panics = faults.console(member, "Kernel panic - not syncing")
    faults.no_root(member)
    good = operator.start("rollout", "good rollout", (WELL,), serial=(1,), variables=variables)
    bad = operator.start("rollout", "a host fails", (PANICS,), serial=(1,), variables=variables)
    bad.until(panics, "the kernel panicked")
    bad.until(old, "the old kernel starts")
    member.vm.forgive()

    failed = operator.finish(bad)
    assert failed.code == 2
    assert failed.report["state"] == "finished", "no host was left that it could keep from the kernel"
    assert failed.results() == {PANICS: "rolled-back"}
    step, why = failed.failure(PANICS)
    assert (step, f"the host came back with {member.before.uname}" in why) == ("kernel", True), why
    assert f"{PANICS}: rolled-back, kernel failed" in bad.output()
    assert failed.states[PANICS].boot_id != member.before.boot_id
    expect.rolled_back(member, failed.states[PANICS])

    done = operator.finish(good)
    assert done.code == 0
    assert done.report["state"] == "finished"
    assert done.results() == {WELL: "done"}
    expect.done_in_its_trial(done, fleet[WELL], release)
    for name in (WELL, PANICS):
        assert [action for action, host in balancer.calls() if host == name] == ["drain", "undrain"]
