"""What is put on a command line for a trial is for that boot alone, whatever becomes of that command line meanwhile."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import booting, snapshot, trial
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.booting import Host, Trial
from ansible_collections.kernel_thp.fleet.plugins.module_utils.grub import Grub
from ansible_collections.kernel_thp.fleet.plugins.module_utils.systemd_boot import SystemdBoot

from tests.static.boot_tree import NEW, OPTIONS, Tree

# What others install.
LATER = "6.1.0-57-amd64"
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
    host.hold()
    tree.add(uname)
    tree.phase(records.INSTALLED)
    assert host.try_once(Trial(uname, 30, 60, MORE, 600))
    return host


def start(tree: Tree, uname: str, boot_id: str) -> None:
    tree.uname, tree.boot_id, tree.command_line = uname, boot_id, tree.options(uname)


def try_out(tree: Tree, uname: str, boot_id: str) -> Host:
    """Have it be tried and confirmed, and another kernel be installed in that boot, by somebody else."""
    host = install(tree, uname)
    start(tree, uname, boot_id)
    # What stops the timer is not to be asked of this machine's systemd.
    tree.phase(records.BOOTED)
    tree.add(LATER)
    assert "oops=panic" in tree.options(LATER), "or there would be nothing to take off again"
    return host


def met(tree: Tree, command_line: str) -> list[bool]:
    """Ask systemd whether the conditions of the units are met, that is whether they would do anything."""
    found = []
    for name in trial.WANTED:
        lines = (tree.root / trial.UNITS / name).read_text().splitlines()
        conditions = [line for line in lines if line.startswith("Condition")]
        # Where its own tests have it look for the command line.
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
    """Its entry may be written anew while the other one is tried."""
    install(tree, NEW)
    assert platform.release() != NEW
    assert met(tree, tree.options(NEW)) == [False, False]
