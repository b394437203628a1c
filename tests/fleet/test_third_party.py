"""A host with a third-party module loaded, which nothing builds for the new kernel. The second test needs the first."""

from __future__ import annotations

import base64
from pathlib import Path

from tests.fleet import expect, modules
from tests.fleet.hosts import Fleet, Member
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

NAME = "alpha"
# A module of the stock kernel that kernel-thp-cloud does not have; it needs no hardware.
MODULE = "lru_cache"
OURS, FOREIGN = b"\0intree=Y\0", b"\0outoft=Y\0"
SIGNED = b"~Module signature appended~\n"


def foreign(content: bytes) -> bytes:
    """Return a module without the note that it is from the kernel's own tree, so it is taken for somebody else's.

    The signature would not fit any more: the kernel refuses a wrong one, and takes a module without one.
    """
    assert content.count(OURS) == 1
    if content.endswith(SIGNED):
        # Before these words, twelve bytes describe it; the last four are its length.
        end = len(content) - len(SIGNED)
        content = content[: end - 12 - int.from_bytes(content[end - 4 : end], "big")]
    return content.replace(OURS, FOREIGN)


def load(member: Member, folder: Path) -> None:
    content = foreign(base64.b64decode(member.vm.run(f"base64 $(modinfo -F filename {MODULE})").text))
    file = folder / f"{MODULE}.ko"
    file.write_bytes(content)
    modules.send(member, file)
    member.vm.run(f"insmod {modules.MODULE} && grep O /sys/module/{MODULE}/taint")


def test_it_is_named_and_the_new_kernel_is_not_booted(
    fleet: Fleet, operator: Operator, release: Release, folder: Path
) -> None:
    fleet.start(NAME)
    member = fleet[NAME]
    load(member, folder)
    member.remember()
    outcome = operator.finish(operator.start("survey", "third-party module", (NAME,)))
    assert outcome.results() == {NAME: "ready"}
    (remark,) = (text for text in outcome.host(NAME)["facts"]["remarks"] if "third-party" in text)
    assert f"({MODULE})" in remark
    expect.untouched(member, outcome.states[NAME])
    outcome = operator.finish(operator.start("rollout", "third-party module", (NAME,)))
    assert outcome.code == 2
    assert outcome.results() == {NAME: "rolled-back"}
    step, why = outcome.failure(NAME)
    assert (step, f"what needs a third-party module ({MODULE})" in why) == ("kernel", True), why
    assert outcome.states[NAME].boot_id == member.before.boot_id
    expect.rolled_back(member, outcome.states[NAME])
    record = outcome.states[NAME].record
    assert record is not None
    assert release.packages <= set(record["packages"]["added"]), "it was installed before it was looked at"


def test_with_that_kernel_installed_the_host_is_refused(fleet: Fleet, operator: Operator, release: Release) -> None:
    member = fleet[NAME]
    member.host.install("kernel-thp-cloud")
    member.remember()
    reason = f"{release.uname} is installed already, without the third-party modules that are loaded ({MODULE})"
    for playbook in ("survey", "rollout"):
        title = f"{playbook}, with the new kernel installed"
        outcome = operator.finish(operator.start(playbook, title, (NAME,)))
        assert outcome.code == 2
        assert outcome.results() == {NAME: "refused"}
        assert reason in outcome.failure(NAME)[1]
        state, before = outcome.states[NAME], member.before
        assert (state.settings, state.boot_id, state.record) == (before.settings, before.boot_id, before.record)
        assert not state.held
