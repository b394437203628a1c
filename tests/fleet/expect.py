"""What a host has to be like after a run, from the host itself and not from the report."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping

from lab.snapshots import PROFILE
from tests.fleet import play
from tests.fleet.hosts import Fleet, Member, State
from tests.fleet.releases import Release
from tests.fleet.rollouts import Outcome

# Of the profile thp-shrinker, see tests/tuned.
SHRINKER = {"enabled": "always", "defrag": "madvise", "shrink_underused": "1", "underused_max_ptes_none": "409"}
# What the trial of a kernel adds to its command line, see docs/fleet.md.
FURTHER = "lab.trial"
OF_THE_TRIAL = ("kernel_thp.trial", "oops=panic", FURTHER)


def untouched(member: Member, state: State) -> None:
    """Nothing at all happened: not even dnf was called."""
    assert state == member.before


def all_untouched(fleet: Fleet, states: Mapping[str, State], *names: str) -> None:
    for name in names:
        untouched(fleet[name], states[name])


def refused(member: Member, state: State) -> None:
    """It was checked and left as it was, and nobody holds it."""
    assert state.settings == member.before.settings
    assert state.boot_id == member.before.boot_id
    assert state.record is None
    assert not state.held


def rolled_back(member: Member, state: State) -> None:
    """It runs its old kernel with its old settings: kernel, default entry, tuned, huge pages, packages, files."""
    assert state.settings == member.before.settings
    assert state.record is not None
    assert state.record["phase"] == "rolled-back"
    assert "drained" not in state.record, "nobody has to return it to service"
    play.validate("record", state.record)
    assert not state.held


def rolled_out(member: Member, state: State, release: Release) -> None:
    """The new kernel runs, is the default and has passed; the profile is active; nothing is left of the trial."""
    before, now = member.before.settings, state.settings
    assert now["uname"] == release.uname
    _kept(state, release)
    assert now["tuned"]["active"] == [f"{PROFILE} thp-shrinker"]
    assert (now["tuned"]["running"], now["tuned"]["enabled"]) == ("active", "enabled")
    assert SHRINKER.items() <= now["huge_pages"].items()
    assert set(now["packages"]) - set(before["packages"]) == release.packages - set(before["packages"])
    assert set(before["packages"]) <= set(now["packages"])
    assert now["units"] == before["units"]
    assert now["sysctls"] == before["sysctls"]
    assert before["boot"]["entries"].items() <= now["boot"]["entries"].items()
    assert state.record is not None
    assert (state.record["phase"], state.record["target"]["uname"]) == ("done", release.uname)
    assert "drained" not in state.record, "nobody has to return it to service"
    play.validate("record", state.record)
    assert not state.held


def done_in_its_trial(outcome: Outcome, member: Member, release: Release) -> None:
    """As rolled_out, by a run that added FURTHER to the trial, and whose report has each step of this host."""
    name = member.name
    rolled_out(member, outcome.states[name], release)
    assert FURTHER in member.vm.run("cat /proc/cmdline").text.split(), "it still runs as its trial began"
    after = outcome.host(name)["facts"]["after"]
    assert (after["uname"], after["verdict"]) == (release.uname, "supported")
    assert outcome.steps(name) == ["preflight", "kernel", "profile", "gate", "soak", "keep"]


def _kept(state: State, release: Release) -> None:
    """The boot loader's default is this kernel's entry and no other; no tries and no trial are left in any."""
    boot = state.settings["boot"]
    entry = f"lab-{release.uname}.conf"
    assert state.default is not None
    assert [name for name in boot["entries"] if fnmatch.fnmatchcase(name, state.default)] == [entry]
    assert boot["once"] is None
    assert [(name, word) for name, text in boot["entries"].items() for word in OF_THE_TRIAL if word in text] == []
