"""The survey of a fleet: every host is a row, also one without an answer, and nothing at all happens to any of them."""

from __future__ import annotations

import pytest

from lab import image
from tests.fleet import expect
from tests.fleet.hosts import Fleet
from tests.fleet.rollouts import Operator, way_to

NAMES = ("alpha", "bravo", "charlie")
DEAD = "[dead]\nname=dead\nbaseurl=http://127.0.0.1:1/\nenabled=1\n"
LOADERS = {image.BOOKWORM: "systemd-boot", image.GRUB: "grub"}
KDUMP = "[Service]\nType=oneshot\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"


@pytest.fixture(scope="module", autouse=True)
def hosts(fleet: Fleet) -> None:
    fleet.start(*NAMES)


def test_every_host_is_a_row_and_none_is_touched(fleet: Fleet, operator: Operator) -> None:
    """Of the two that answer, one has a repository that is down and kdump, the other an exclude and no tuned-adm."""
    ready, refused, gone = (fleet[name] for name in NAMES)
    ready.vm.write("/etc/yum.repos.d/dead.repo", DEAD)
    ready.vm.write("/etc/systemd/system/kdump.service", KDUMP)
    ready.vm.run("systemctl enable kdump")
    refused.vm.write("/etc/dnf/dnf.conf", "[main]\nexcludepkgs=kernel-thp*\n")
    refused.vm.run("mv $(command -v tuned-adm) /root/")
    for member in (ready, refused):
        member.remember()
    gone.vm.power_off()
    run = operator.start("survey", "survey", NAMES, variables={"thp_preflight_connect_timeout": 10})
    outcome = operator.finish(run)
    assert outcome.code == 2
    assert outcome.report["state"] == "finished"
    assert outcome.results() == {"alpha": "ready", "bravo": "refused", "charlie": "unreachable"}
    expect.all_untouched(fleet, outcome.states, "alpha", "bravo")
    facts = outcome.host("alpha")["facts"]
    assert (facts["loader"], facts["before"]["uname"]) == (LOADERS[fleet.kind], ready.before.uname)
    assert any("kdump is enabled" in remark for remark in facts["remarks"])
    reasons = outcome.host("bravo")["facts"]["reasons"]
    assert len(reasons) == 2
    assert "/etc/dnf/dnf.conf line 2: excludepkgs=kernel-thp*" in reasons[0]
    assert "tuned-adm is missing" in reasons[1]
    output = run.output()
    assert "2 of 3 hosts cannot take part: bravo, charlie" in output
    rows = [line.split() for line in output.splitlines() if line.startswith(tuple(f"{name}  " for name in NAMES))]
    verdicts = [row[3] for row in rows if len(row) > 3 and row[3] in ("ready", "refused", "unreachable")]
    assert verdicts == ["refused", "unreachable", "ready"]


def test_two_names_of_one_machine(fleet: Fleet, operator: Operator) -> None:
    """By the survey, and by a rollout to both in one batch, in check mode."""
    again = {"bravo": way_to(fleet["alpha"])}
    outcome = operator.finish(operator.start("survey", "two names", ("alpha", "bravo"), of_hosts=again))
    assert outcome.code == 2
    assert sorted(outcome.results().values()) == ["ready", "refused"]
    (other,) = (name for name, result in outcome.results().items() if result == "refused")
    assert "this is the same machine as" in outcome.failure(other)[1]
    run = operator.start("rollout", "two names", ("alpha", "bravo"), serial=(2,), of_hosts=again, words=("--check",))
    assert run.wait() == 2
    assert run.output().count("this is the same machine as") > 0
    expect.untouched(fleet["alpha"], fleet["alpha"].collect())


def test_a_fleet_that_can_take_part(fleet: Fleet, operator: Operator) -> None:
    outcome = operator.finish(operator.start("survey", "all ready", ("alpha",)))
    assert outcome.code == 0
    assert outcome.results() == {"alpha": "ready"}
    expect.all_untouched(fleet, outcome.states, "alpha")
