"""Packages, by real dnf and rpm in a root directory of their own: what a rollout adds and takes back, and nothing else.

They are signed, and have a configuration file each. What is rolled out brings a dependency, needs a newer version of an
installed package, and replaces another one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import packages
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

from tests.unit.toys import AFTER_OTHERS, BEFORE, DEPENDENCY, MADE, OURS, SOURCES, Host, host, repository, until

__all__ = ["host", "repository"]


def test_what_a_transaction_brings_and_replaces_is_recorded_and_taken_back(host: Host) -> None:
    host.install()
    assert host.record()["packages"] == MADE
    assert (host.record()["packages_before"], host.record()["packages_touched"]) == (None, None)
    # Somebody needs the library all the time.
    host.restore()
    assert packages.installed() == BEFORE


def test_what_somebody_else_installs_meanwhile_stays_theirs(host: Host) -> None:
    """Their transaction has begun before ours, and ends when ours has been planned and waits for them."""
    other = host.slow()
    ours = threading.Thread(target=host.install)
    ours.start()
    until(lambda: host.record()["phase"] == records.INSTALLING)
    host.end(other)
    ours.join()
    assert host.record()["packages"] == MADE
    host.restore()
    assert packages.installed() == AFTER_OTHERS


@pytest.mark.parametrize("again", [False, True])
def test_what_somebody_else_installs_after_a_power_failure_stays_theirs(host: Host, again: bool) -> None:
    """The failure came before any wanted package was installed, and somebody continues only days later."""
    touched = packages.download([OURS], 60, SOURCES)
    host.begin(phase=records.INSTALLING, packages_before=packages.installed(), packages_touched=touched)
    host.has("install", DEPENDENCY)
    host.end(host.slow())
    if again:
        host.install()
        assert host.record()["packages"] == MADE
    host.restore()
    assert packages.installed() == AFTER_OTHERS


def test_what_may_not_be_on_the_disk_does_not_count_as_installed(host: Host) -> None:
    host.program("sync", "exec false")
    with pytest.raises(Problem, match=r"`sync --file-system / .* ended with 1: .*; see the kernel's log"):
        host.install()
    assert host.record()["phase"] == records.INSTALLING
    host.program("sync", "exec true")
    host.install()
    assert host.record()["phase"] == records.INSTALLED


def cut_off(host: Host) -> None:
    """Have the host installed what is wanted, but not known that it had."""
    touched, installed = packages.download([OURS], 60, SOURCES), packages.installed()
    host.install()
    host.begin(phase=records.INSTALLING, packages_before=installed, packages_touched=touched)


def emptied(path: Path) -> None:
    """Empty a file as a power failure does: its time stays the one that rpm has set."""
    times = path.stat()
    path.write_text("")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_of_a_transaction_that_was_cut_off_no_empty_file_stays(host: Host) -> None:
    folder = host.root / "etc"
    before = sorted(path.name for path in folder.iterdir())
    cut_off(host)
    emptied(folder / "ours.conf")
    host.restore()
    assert packages.installed() == BEFORE
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_file_that_somebody_emptied_stays(host: Host) -> None:
    """One before the rollout, in a package that it replaces, and one after the power failure."""
    folder = host.root / "etc"
    (folder / "library.conf").write_text("")
    cut_off(host)
    (folder / "ours.conf").write_text("")
    host.restore()
    assert packages.installed() == BEFORE
    assert [(folder / name).read_text() for name in ("library.conf", "ours.conf.rpmsave")] == ["", ""]


@pytest.mark.parametrize("spoil", [emptied, Path.unlink])
def test_an_install_that_was_cut_off_is_not_taken_for_one_that_ended(
    host: Host, spoil: Callable[[Path], object]
) -> None:
    cut_off(host)
    spoil(host.root / "etc" / "ours.conf")
    with pytest.raises(Problem, match=r"has left 1 files empty or missing, such as /.*/etc/ours\.conf"):
        host.install()
    assert host.record()["phase"] == records.INSTALLING
    host.restore()
    assert packages.installed() == BEFORE


def test_what_others_need_of_what_was_added_is_not_removed_with_it(host: Host) -> None:
    host.install()
    host.has("install", "later")
    with pytest.raises(Problem, match=r"later-1-1\.noarch needs what the rollout installed, and would be removed"):
        host.restore()
    assert OURS in packages.installed()


def test_a_transaction_that_cannot_be_read_is_not_begun(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "touched", lambda output, machine: [])
    with pytest.raises(Problem, match=f"does not name {OURS}"):
        host.install()
    assert host.record()["phase"] == records.BEGUN
    assert packages.installed() == BEFORE


def test_packages_are_told_by_name_and_architecture() -> None:
    assert packages.family("kernel-thp-cloud-core-6.1.187-1.x86_64") == "kernel-thp-cloud-core.x86_64"
    assert packages.family("library-1:2-1.el9.noarch") == "library.noarch"


# As dnf 5 has it.
TABLE = """\
Package                Arch   Version    Repository      Size
Installing:
 ours                  x86_64 0:1-1      toys         0.0   B
   replacing old-name  noarch 0:1-1      @System      0.0   B
Upgrading:
 library               noarch 1:2-1      toys         0.0   B
   replacing library   noarch 0:1-1      @System      0.0   B

Transaction Summary:
 Installing:         1 package
"""


def test_another_form_of_the_table_is_read_as_well() -> None:
    assert packages.touched(TABLE, "x86_64") == ["library.noarch", "old-name.noarch", "ours.x86_64"]
    skipped = f"{TABLE}Skipping packages with broken dependencies:\n openssl x86_64 2-1 toys 1 k\n"
    assert packages.touched(skipped, "x86_64") == packages.touched(TABLE, "x86_64")


@pytest.mark.parametrize(("real", "expected"), [("dnf-3", False), ("dnf5", True)])
def test_dnf_5_is_known_by_what_its_name_leads_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, real: str, expected: bool
) -> None:
    (tmp_path / real).write_text("#!/bin/sh\n")
    (tmp_path / real).chmod(0o755)
    (tmp_path / "dnf").symlink_to(real)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert packages._is_dnf5() is expected
