"""The first run on a host without repository and key: the collection sets both up, and uses no other repository.

The tests build on each other.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest

from lab import repo
from scripts import rpms, signing
from tests.fleet import expect
from tests.fleet.hosts import Fleet, Member
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

NAME = "alpha"
PLACE = "/root/repo"
FILE = "/etc/yum.repos.d/kernel-thp.repo"
DEAD = "[dead]\nname=dead\nbaseurl=http://127.0.0.1:1/\nenabled=1\n"
OTHER_ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def member(fleet: Fleet, folder: Path) -> Member:
    """A host with the packages in a directory, a third-party repository that is down, and neither file nor key."""
    fleet.start(NAME)
    found = fleet[NAME]
    archive = folder / "repo.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(repo.REPO.resolve(), ".")
    found.vm.unpack(archive, PLACE)
    archive.unlink()
    found.vm.run(f"rm {FILE} && rpm -e --allmatches gpg-pubkey && rm -rf /var/cache/dnf /var/cache/libdnf5")
    found.vm.write("/etc/yum.repos.d/dead.repo", DEAD)
    found.remember()
    return found


@pytest.fixture(scope="module")
def variables() -> dict[str, Any]:
    with signing.keyring() as home:
        fingerprint = signing.fingerprint(home)
    return {"thp_preflight_repository_url": f"file://{PLACE}", "thp_preflight_repository_fingerprint": fingerprint}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"thp_preflight_repository_url": ""}, "thp_preflight_repository_url and thp_preflight_repository_fingerprint"),
        ({"thp_preflight_repository_url": "http://10.0.2.2"}, "which anybody on the way could replace"),
        ({"thp_preflight_repository_fingerprint": "AB" * 20}, f"not {'AB' * 20}; ask who publishes the repository"),
    ],
)
def test_what_is_missing_or_cannot_be_trusted_is_refused(
    member: Member, operator: Operator, variables: dict[str, Any], other: dict[str, str], message: str
) -> None:
    run = operator.start("rollout", f"refused {len(operator.runs)}", (NAME,), variables={**variables, **other})
    outcome = operator.finish(run)
    assert outcome.results() == {NAME: "refused"}
    assert message in outcome.failure(NAME)[1]
    expect.refused(member, outcome.states[NAME])
    assert member.vm.run(f"rpm -q gpg-pubkey || [ -e {FILE} ]", check=False).code != 0


def test_the_survey_reads_the_repository_without_setting_it_up(
    member: Member, operator: Operator, variables: dict[str, Any]
) -> None:
    # dnf has been asked for the unknown repository.
    member.remember()
    outcome = operator.finish(operator.start("survey", "survey", (NAME,), variables=variables))
    assert (outcome.code, outcome.results()) == (0, {NAME: "ready"})
    expect.untouched(member, outcome.states[NAME])
    assert member.vm.run(f"rpm -q gpg-pubkey || [ -e {FILE} ]", check=False).code != 0


def test_the_rollout_sets_it_up(
    member: Member, operator: Operator, variables: dict[str, Any], release: Release
) -> None:
    outcome = operator.finish(operator.start("rollout", "first run", (NAME,), variables=variables))
    assert (outcome.code, outcome.results()) == (0, {NAME: "done"})
    expect.rolled_out(member, outcome.states[NAME], release)
    text = member.vm.run(f"cat {FILE}").text.splitlines()
    assert {f"baseurl=file://{PLACE}", "gpgcheck=1", "repo_gpgcheck=1"} <= set(text)
    assert member.vm.run("rpm -q gpg-pubkey | wc -l").text == "1"
    member.vm.run(f"cmp /etc/pki/rpm-gpg/RPM-GPG-KEY-kernel-thp {PLACE}/{rpms.KEY_NAME}")


def test_a_clone_with_its_record_is_refused(member: Member, operator: Operator, variables: dict[str, Any]) -> None:
    own = member.vm.run("cat /etc/machine-id").text
    before = member.collect()
    member.vm.write("/etc/machine-id", f"{OTHER_ID}\n")
    outcome = operator.finish(operator.start("rollout", "clone", (NAME,), variables=variables))
    member.vm.write("/etc/machine-id", f"{own}\n")
    assert outcome.results() == {NAME: "refused"}
    assert f"is of machine {own}, this is {OTHER_ID}; move it away" in outcome.failure(NAME)[1]
    now = outcome.states[NAME]
    assert (now.settings, now.record, now.held) == (before.settings, before.record, False)


def test_the_rollback_leaves_repository_and_key(member: Member, operator: Operator, variables: dict[str, Any]) -> None:
    outcome = operator.finish(operator.start("rollback", "rollback", (NAME,), variables=variables))
    assert (outcome.code, outcome.results()) == (0, {NAME: "undone"})
    expect.rolled_back(member, outcome.states[NAME])
    member.vm.run(f"rpm -q gpg-pubkey && [ -e {FILE} ]")
