"""Problems before anything is changed: the host is refused and unchanged, and the run says why and stops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab import image, repo
from scripts.flavours import CLOUD
from tests.fleet import expect, faults, repositories
from tests.fleet.hosts import Fleet, Member
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator, Outcome

# What dnf 5 says of these has other words.
SAID_BY_DNF_4 = pytest.mark.skipif(image.chosen() != image.BOOKWORM, reason="the messages are those of dnf 4")

FAILING, OTHERS = "alpha", ("bravo", "charlie")
NAMES = (FAILING, *OTHERS)
# With dnf 5 and with dnf 4: where a version lock is, how to have it name a build that the repository does not have, and
# what the message has to show of it.
LOCK_5 = "/etc/dnf/versionlock.toml", '/evr/,/value/ s/value = .*/value = "6.1.1-1"/', f'name = "{CLOUD.core}"'
LOCK_4 = "/etc/dnf/plugins/versionlock.list", "s/-0:.*/-0:6.1.1-1.*/", f"{CLOUD.core}-0:6.1.1-1.*"
# For dnf 4, it is in a package that lab hosts do not have, and that the host which builds the packages does.
PYTHON = "/usr/lib/python3/dist-packages"
PLUGIN = (
    "/etc/dnf/plugins/versionlock.conf",
    f"{PYTHON}/dnf-plugins/versionlock.py",
    f"{PYTHON}/dnfpluginscore/__init__.py",
)


@pytest.fixture
def member(fleet: Fleet) -> Member:
    """The host that will be refused; all hosts are unchanged."""
    fleet.refresh(*NAMES)
    return fleet[FAILING]


@contextmanager
def undone(member: Member, undo: Callable[[], object]) -> Iterator[None]:
    """Take what was done to the host for part of its state, and undo it whatever happens: other tests follow."""
    try:
        member.remember()
        yield
    finally:
        undo()
        member.remember()


def rollout(operator: Operator, title: str, **variables: object) -> Outcome:
    return operator.finish(operator.start("rollout", title, NAMES, variables=variables))


def expect_refused(outcome: Outcome, fleet: Fleet, *reasons: str) -> None:
    """The first host is refused for these reasons and unchanged, and the others were never reached."""
    assert outcome.code == 2
    assert outcome.report["state"] == "stopped"
    assert outcome.results() == {FAILING: "refused", **dict.fromkeys(OTHERS, "not-reached")}
    step, why = outcome.failure(FAILING)
    assert step == "preflight"
    assert [reason for reason in reasons if reason not in why] == [], why
    expect.refused(fleet[FAILING], outcome.states[FAILING])
    expect.all_untouched(fleet, outcome.states, *OTHERS)


@SAID_BY_DNF_4
def test_a_repository_index_that_somebody_else_signed(
    fleet: Fleet, member: Member, operator: Operator, tmp_path: Path
) -> None:
    with repo.served(repositories.with_foreign_metadata(tmp_path / "repo")) as url:
        member.host.use_repository(url)
        outcome = rollout(operator, "index signed by somebody else")
    expect_refused(outcome, fleet, "the repository cannot be used", "Bad GPG signature")
    assert f"1 host failed, 0 allowed; {FAILING}: refused, preflight failed" in outcome.run.output()


@SAID_BY_DNF_4
def test_a_package_that_somebody_else_signed(fleet: Fleet, member: Member, operator: Operator, tmp_path: Path) -> None:
    with repo.served(repositories.with_foreign_package(tmp_path / "repo")) as url:
        member.host.use_repository(url)
        outcome = rollout(operator, "package signed by somebody else")
    expect_refused(outcome, fleet, f"Failing package is: {CLOUD.core}-")


def test_no_room_on_the_boot_partition(fleet: Fleet, member: Member, operator: Operator) -> None:
    boot = member.host.loader.boot
    with undone(member, faults.fill(member, boot, leave_mib=100)):
        outcome = rollout(operator, "full boot partition")
        expect_refused(outcome, fleet, f"{boot} has ", "200 MiB are needed; make room")


def test_a_file_system_below_var_without_room(fleet: Fleet, member: Member, operator: Operator) -> None:
    member.vm.run("mount -t tmpfs -o size=100M tmpfs /var/tmp")
    with undone(member, lambda: member.vm.run("umount /var/tmp")):
        outcome = rollout(operator, "full /var/tmp")
        expect_refused(outcome, fleet, "/var/tmp has 100 MiB free, 256 MiB are needed; make room")


def test_an_exclude_that_holds_the_kernel_back(
    fleet: Fleet, member: Member, operator: Operator, release: Release
) -> None:
    """By a rollout, and in check mode, which goes on to the other batches."""
    member.vm.run("cp /etc/dnf/dnf.conf /root/", check=False)
    member.vm.write("/etc/dnf/dnf.conf", "[main]\nexclude=bash kernel*\n")
    back = "rm /etc/dnf/dnf.conf; [ ! -e /root/dnf.conf ] || mv /root/dnf.conf /etc/dnf/dnf.conf"
    with undone(member, lambda: member.vm.run(back)):
        outcome = rollout(operator, "excluded kernel")
        expect_refused(outcome, fleet, "/etc/dnf/dnf.conf line 2: exclude=bash kernel*")
        run = operator.start("rollout", "excluded kernel in check mode", NAMES, words=("--check", "--diff"))
        assert run.wait() == 2
        assert f"1 host failed, 0 allowed; {FAILING}: refused" in run.output()
        assert run.output().count(f"once: {release.uname}") >= len(OTHERS)
        expect.all_untouched(fleet, fleet.collect(OTHERS), *OTHERS)


def test_a_version_lock_that_holds_the_kernel_back(fleet: Fleet, member: Member, operator: Operator) -> None:
    """As somebody left it who had seen another build of the kernel and wanted no other."""
    needed = PLUGIN if fleet.kind == image.BOOKWORM else ()
    path, other_build, entry = LOCK_4 if needed else LOCK_5
    with undone(member, lambda: member.vm.run(f"rm -f {' '.join([path, *needed])}")):
        for file in needed:
            member.vm.write(file, Path(file).read_text())
        if needed:
            # The plugin does not make it.
            member.vm.write(path, "")
        member.vm.run(f"dnf -y versionlock add {CLOUD.core}")
        member.vm.run(f"sed -i '{other_build}' {path}")
        member.remember()
        outcome = rollout(operator, "locked version")
        expect_refused(outcome, fleet, f"{path} line ", entry)


def test_a_key_that_rpm_does_not_know(fleet: Fleet, member: Member, operator: Operator) -> None:
    """dnf knows its address by the file of the repository, and does not import it by itself."""
    member.vm.run("rpm -e --allmatches gpg-pubkey && rm -rf /var/cache/dnf /var/cache/libdnf5")
    with undone(member, member.host.trust_repository):
        outcome = rollout(operator, "unknown key")
        expect_refused(outcome, fleet, "dnf may not import any by itself")
        assert member.vm.run("rpm -q gpg-pubkey", check=False).code != 0


@pytest.fixture
def other_dnf(member: Member) -> Iterator[None]:
    """Another transaction, in the middle of which a package is slow."""
    faults.slow_package(member)
    member.vm.run("systemd-run --quiet --unit=lab-dnf dnf -y install /root/slow.rpm")
    member.vm.run("timeout 120 sh -c 'until [ -e /run/slow-began ]; do sleep 0.5; done'", timeout=150)
    member.remember()
    yield
    member.vm.run("touch /run/slow-may-end")
    member.vm.run("timeout 120 sh -c 'while systemctl -q is-active lab-dnf; do sleep 0.5; done'", timeout=150)
    assert member.vm.run("rpm -q lab-slow", check=False).code == 0, "the other transaction was disturbed"
    member.remember()


@SAID_BY_DNF_4
def test_another_dnf_in_the_middle_of_its_transaction(
    fleet: Fleet, member: Member, operator: Operator, other_dnf: None
) -> None:
    outcome = rollout(operator, "another dnf holds the lock", thp_preflight_lock_timeout=10)
    expect_refused(outcome, fleet, "another package transaction is running: pid", "dnf")


def test_tuned_is_missing(fleet: Fleet, member: Member, operator: Operator) -> None:
    program = member.vm.run("command -v tuned-adm").text
    member.vm.run(f"mv {program} /root/tuned-adm")
    with undone(member, lambda: member.vm.run(f"mv /root/tuned-adm {program}")):
        outcome = rollout(operator, "tuned is missing")
        expect_refused(outcome, fleet, "tuned-adm is missing", "reinstall tuned")


def test_a_health_command_that_cannot_be_run(fleet: Fleet, member: Member, operator: Operator) -> None:
    faults.program(member, "/usr/local/bin/healthy", "exit 0")
    member.vm.run("chmod 0644 /usr/local/bin/healthy")
    outcome = rollout(operator, "mistyped health command", thp_gate_health_command=["/usr/local/bin/healthy", "--all"])
    expect_refused(outcome, fleet, "the health command cannot be run: /usr/local/bin/healthy: Permission denied")


def test_a_host_that_does_not_answer(fleet: Fleet, member: Member, operator: Operator) -> None:
    """Last, because the host has rebooted afterwards."""
    member.vm.shut_down()
    outcome = rollout(operator, "unreachable from the start", thp_preflight_connect_timeout=10)
    assert outcome.code == 2
    assert outcome.report["state"] == "stopped"
    assert outcome.results() == {FAILING: "unreachable", **dict.fromkeys(OTHERS, "not-reached")}
    step, why = outcome.failure(FAILING)
    assert (step, "the host does not answer" in why) == ("preflight", True)
    expect.all_untouched(fleet, outcome.states, *OTHERS)
    member.restart()
    state = member.collect()
    assert (state.uname, state.default, state.record) == (member.before.uname, member.before.default, None)
    assert state.settings["packages"] == member.before.settings["packages"]
