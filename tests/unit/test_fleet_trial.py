"""What is put on a command line for a trial is for that boot alone, whatever becomes of that command line meanwhile."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import booting, snapshot, trial
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.booting import Host, Trial
from ansible_collections.kernel_thp.fleet.plugins.module_utils.grub import Grub
from ansible_collections.kernel_thp.fleet.plugins.module_utils.systemd_boot import SystemdBoot

from tests.unit.boot_tree import NEW, OLD, OPTIONS, Tree

# Kernels that others install, and our next release.
LATER, NEXT = "6.1.0-57-amd64", "6.1.190-1.x86_64+thp.cloud"
LOCKUPS = ("softlockup_panic", "hardlockup_panic", "panic_on_rcu_stall")
HUNG = "INFO: task nfsd:812 blocked for more than 120 seconds."
STALLED = "watchdog: BUG: soft lockup - CPU#1 stuck for 23s! [kworker/1:1:40]"
MORE = ["rdinit=/nonexistent", "root="]


@pytest.fixture(params=[SystemdBoot, Grub])
def tree(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    monkeypatch.setattr(booting, "ROOT", tmp_path)
    monkeypatch.setattr(snapshot, "watchdog", lambda: None)
    for name in snapshot.SYSCTLS:
        (tmp_path / "proc/sys" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "proc/sys" / name).write_text("0\n")
    return Tree(tmp_path, monkeypatch, request.param)


def install(tree: Tree, uname: str) -> Host:
    """Go as far as to a kernel that is about to be tried."""
    host = tree.begin(uname)
    host.hold(600)
    tree.add(uname)
    tree.phase(records.INSTALLED)
    assert host.try_once(Trial(uname, 30, 60, MORE, 600, check_drivers=False))
    return host


def start(tree: Tree, uname: str, boot_id: str) -> None:
    tree.uname, tree.boot_id, tree.command_line = uname, boot_id, tree.options(uname)


def try_out(tree: Tree, uname: str, boot_id: str) -> Host:
    """Have it be tried and confirmed, and another kernel be installed in that boot, by somebody else."""
    host = install(tree, uname)
    start(tree, uname, boot_id)
    # Stopping the timer must not reach this machine's systemd.
    tree.phase(records.BOOTED)
    tree.add(LATER)
    assert "oops=panic" in tree.options(LATER), "or there would be nothing to take off again"
    return host


def test_the_words_of_the_trial_come_after_those_of_the_entry_and_in_no_other_one(tree: Tree) -> None:
    install(tree, NEW)
    waiting = "rd.shell=0 rd.emergency=reboot systemd.crash_reboot=1"
    lockups = "softlockup_panic=1 nmi_watchdog=panic sysctl.kernel.panic_on_rcu_stall=1 sysctl.kernel.hung_task_panic=1"
    words = f"panic=30 oops=panic {waiting} {lockups} systemd.watchdog_sec=60 rdinit=/nonexistent root="
    assert tree.options(NEW) == f"{OPTIONS} kernel_thp.trial=b0 {words} kernel_thp.trial_end"
    assert tree.options(OLD) == OPTIONS


@pytest.mark.parametrize(
    ("complaints", "lockups", "panics", "if_blocked", "own"),
    [
        ([], True, True, True, {}),
        # The host's own sysctl.d has it.
        ([], True, True, True, {trial.BLOCKED: "1"}),
        ([], False, False, False, {}),
        ([STALLED], True, False, True, {}),
        ([HUNG], True, True, False, {}),
    ],
)
def test_a_lockup_ends_the_trial_unless_the_host_is_slow_anyway(
    tree: Tree, complaints: list[str], lockups: bool, panics: bool, if_blocked: bool, own: dict[str, str]
) -> None:
    """On the command line, in the unit, and in what is set when the kernel is confirmed; then all is as it was."""
    host = tree.begin(NEW)
    record = tree.store.read()
    assert record is not None
    tree.store.write(
        record, before={**record["before"], "complaints": complaints, "sysctls": {"kernel/panic": "0", **own}}
    )
    host.hold(600)
    tree.add(NEW)
    tree.phase(records.INSTALLED)
    assert host.try_once(Trial(NEW, 30, 60, [], 600, False, lockups))
    unit = (tree.root / trial.UNITS / trial.PANIC).read_text()
    assert [name in unit for name in LOCKUPS] == [panics] * 3
    assert [f"echo 1 > /proc/sys/kernel/{name}" in unit for name in LOCKUPS] == [panics] * 3
    assert [word in tree.options(NEW).split() for word in trial.LOCKUP_WORDS] == [panics] * 3
    assert ("echo 1 > /proc/sys/kernel/hung_task_panic" in unit) == if_blocked
    assert (trial.BLOCKED_WORD in tree.options(NEW).split()) == if_blocked
    start(tree, NEW, "b1")
    # As the command line has it.
    (tree.root / "proc/sys" / trial.BLOCKED).write_text(f"{int(if_blocked)}\n")
    tree.program("systemctl", "#!/bin/sh\n")
    host.confirm(NEW, 30, lockups)
    # The last one only until then.
    wanted = {"kernel/panic": "30", "kernel/panic_on_oops": "1", trial.BLOCKED: own.get(trial.BLOCKED, "0")}
    assert snapshot.sysctls(tree.root) == {**dict.fromkeys(snapshot.SYSCTLS, "1" if panics else "0"), **wanted}
    host.keep(NEW, 1)
    assert snapshot.sysctls(tree.root) == {**dict.fromkeys(snapshot.SYSCTLS, "0"), "kernel/panic_on_oops": "1", **own}


def test_a_rollback_of_a_kernel_that_was_not_confirmed_leaves_no_panic_on_blocked_tasks(tree: Tree) -> None:
    """It may have to go on running, if the host cannot be rebooted."""
    host = install(tree, NEW)
    start(tree, NEW, "b1")
    (tree.root / "proc/sys" / trial.BLOCKED).write_text("1\n")
    tree.program("systemctl", "#!/bin/sh\n")
    tree.phase(records.ROLLING_BACK)
    host.roll_back()
    assert snapshot.sysctls(tree.root)[trial.BLOCKED] == "0"


def test_when_a_kernel_is_kept_no_entry_has_anything_of_its_trial(tree: Tree) -> None:
    try_out(tree, NEW, "b1").keep(NEW, 1)
    assert {uname: tree.options(uname) for uname in (OLD, NEW, LATER)} == dict.fromkeys((OLD, NEW, LATER), OPTIONS)


def test_after_a_rollback_no_entry_has_anything_of_the_trial(tree: Tree) -> None:
    host = try_out(tree, NEW, "b1")
    start(tree, OLD, "b2")
    tree.phase(records.ROLLING_BACK)
    host.restore()
    assert {uname: tree.options(uname) for uname in (OLD, NEW, LATER)} == dict.fromkeys((OLD, NEW, LATER), OPTIONS)


def test_what_is_installed_after_the_kernel_was_kept_is_cleared_by_the_next_rollout(tree: Tree) -> None:
    """The boot is still that of the trial, so its command line still has the words."""
    try_out(tree, NEW, "b1").keep(NEW, 1)
    tree.add(LATER)
    assert trial.marked(tree.options(LATER))
    host = tree.begin(NEXT)
    host.hold(600)
    assert host.changed
    assert tree.options(LATER) == OPTIONS


def test_the_next_release_does_not_take_the_words_it_inherited_for_its_own(tree: Tree) -> None:
    try_out(tree, NEW, "b1").keep(NEW, 1)
    host = install(tree, NEXT)
    assert tree.options(NEXT).split().count("oops=panic") == 1
    assert "kernel_thp.trial=b1" in tree.options(NEXT) and "kernel_thp.trial=b0" not in tree.options(NEXT)
    start(tree, NEXT, "b2")
    tree.phase(records.BOOTED)
    host.keep(NEXT, 1)
    assert tree.options(NEXT) == OPTIONS


def test_a_run_that_takes_over_an_armed_kernel_leaves_its_words_until_it_arms_it_itself(tree: Tree) -> None:
    """It may start at any time, be it by a power cut."""
    host = install(tree, NEW)
    armed = tree.options(NEW)
    host.hold(600)
    assert tree.options(NEW) == armed
    assert host.try_once(Trial(NEW, 45, 60, [], 600, check_drivers=False))
    assert tree.options(NEW) == f"{OPTIONS} {' '.join(trial.arguments('b0', 45, 60, []))}"


def met(tree: Tree, command_line: str, names: Sequence[str] = trial.WANTED) -> list[bool]:
    """Ask systemd whether the conditions of the units are met, that is whether they would do anything."""
    found = []
    for name in names:
        lines = (tree.root / trial.UNITS / name).read_text().splitlines()
        conditions = [line for line in lines if line.startswith("Condition")]
        # Its own tests also use this variable for the command line.
        environment = {**os.environ, "SYSTEMD_PROC_CMDLINE": command_line}
        done = subprocess.run(
            ["systemd-analyze", "condition", *conditions], env=environment, capture_output=True, text=True, check=False
        )
        assert "Conditions " in done.stdout + done.stderr, done
        found.append(done.returncode == 0)
    return found


def test_a_mark_that_was_inherited_does_not_have_a_boot_end_by_itself(tree: Tree) -> None:
    # The conditions are about the kernel of this machine.
    this = platform.release()
    try_out(tree, NEW, "b1").keep(NEW, 1)
    inherited = tree.command_line
    install(tree, this)
    assert met(tree, tree.options(this)) == [True, True]
    for other in (inherited, f"{OPTIONS} kernel_thp.trial", OPTIONS):
        assert met(tree, other) == [False, False], other


def test_the_old_kernel_does_not_end_by_itself_even_with_the_mark(tree: Tree) -> None:
    """kernel-install may rewrite its entry during the trial."""
    install(tree, NEW)
    assert platform.release() != NEW
    assert met(tree, tree.options(NEW)) == [False, False]


def test_what_goes_into_the_initramfs_is_there_for_the_install_and_gone_after_the_trial(tree: Tree) -> None:
    host = tree.begin(NEW)
    host.hold(900)
    drop_in = (tree.root / trial.DRACUT).read_text()
    items = [tree.root / item.lstrip("/") for item in drop_in.split('"')[1].split()]
    assert [item.name for item in items] == 2 * [trial.INITRD_TIMER, trial.GIVEN_UP]
    assert all(item.exists() for item in items), "a link leads somewhere, too"
    timer = items[0].read_text().splitlines()
    assert "OnBootSec=900s" in timer and f"Unit={trial.GIVEN_UP}" in timer
    tree.add(NEW)
    tree.phase(records.ROLLING_BACK)
    host.roll_back()
    assert not [item for item in (*items, tree.root / trial.DRACUT) if item.is_symlink() or item.exists()]


def test_emergency_mode_ends_the_trial_of_that_kernel_and_no_other_boot(tree: Tree) -> None:
    """The link is there for every boot until the trial is over, so the unit itself has to know."""
    this = platform.release()
    install(tree, this)
    assert (tree.root / trial.UNITS / "emergency.target.wants" / trial.GIVEN_UP).resolve().is_file()
    assert met(tree, tree.options(this), [trial.GIVEN_UP]) == [True]
    assert met(tree, OPTIONS, [trial.GIVEN_UP]) == [False], "without the mark"
    install(tree, NEW)
    assert met(tree, tree.options(NEW), [trial.GIVEN_UP]) == [False], "in another kernel"


def test_systemd_understands_the_units_of_the_trial(tree: Tree) -> None:
    install(tree, NEW)
    units = sorted((tree.root / trial.UNITS).glob("kernel-thp-trial*"))
    words = ["systemd-analyze", "verify", "--recursive-errors=no", *map(str, units)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert len(units) == 5
    assert [line for line in (done.stdout + done.stderr).splitlines() if "kernel-thp-trial" in line] == []


@pytest.mark.parametrize(
    ("options", "own"),
    [
        ("a panic=5 oops=panic b", "a panic=5 oops=panic b"),
        ("a  kernel_thp.trials=1 kernel_thp.trial_ending", "a  kernel_thp.trials=1 kernel_thp.trial_ending"),
        # The host's own word, which is one of the trial's as well.
        ("panic=30 a kernel_thp.trial=x panic=30 oops=panic kernel_thp.trial_end", "panic=30 a"),
        # As kernel-install adds to it, and with two of them.
        ("a kernel_thp.trial=x panic=30 y kernel_thp.trial_end systemd.machine_id=1", "a systemd.machine_id=1"),
        ("kernel_thp.trial=x y kernel_thp.trial_end a kernel_thp.trial=z kernel_thp.trial_end b", "a b"),
        # Without an end.
        ("a kernel_thp.trial panic=30 oops=panic systemd.watchdog_sec=60 b panic=5", "a b panic=5"),
        ("$kernelopts kernel_thp.trial=x panic=30 oops=panic", "$kernelopts"),
        ("a kernel_thp.trial=x panic=30 oops=panic rd.shell=0 rd.emergency=reboot b rd.shell=0", "a b rd.shell=0"),
        (f"a {' '.join(trial.arguments('x', 30, 60, []))[: -len(trial.END)]}b", "a b"),
        ("a kernel_thp.trial", "a"),
    ],
)
def test_what_trials_have_added_is_told_from_the_hosts_own(options: str, own: str) -> None:
    assert trial.without(options) == own
    assert trial.marked(options) == (options != own)


def test_an_entry_that_names_a_variable_of_grub_is_tried_and_cleared_as_any_other(tree: Tree) -> None:
    """GRUB fills it in when it starts the kernel. It is never for us to do."""
    entry = tree.loader.folder / f"lab-{OLD}.conf"
    entry.write_text(entry.read_text().replace(OPTIONS, "$kernelopts $tuned_params"))
    before = entry.read_text()
    words = trial.arguments("b0", 30, 60, [])
    assert tree.loader.set_trial(tree.loader.entry(OLD), words)
    assert tree.options(OLD) == f"$kernelopts $tuned_params {' '.join(words)}"
    assert tree.loader.set_trial(tree.loader.entry(OLD), [])
    assert entry.read_text() == before
