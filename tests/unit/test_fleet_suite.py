"""What the fleet tests do without hosts: remember what passed, the balancer's tool, the table, the releases."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lab.vm import Vm
from tests.fleet import collect, memory, play, releases, rollouts, table
from tests.fleet.balancer import Balancer
from tests.fleet.hosts import Member
from tests.fleet.memory import Memory
from tests.fleet.table import Row

ROW = Row("run", "alpha", "done", "6.1.187-1.x86_64+thp.cloud", "6.1.187-1.x86_64+thp.cloud", "lab-app", "9 s", "-")


@pytest.fixture
def subjects(monkeypatch: pytest.MonkeyPatch) -> dict[Path, str]:
    """What files of tests are about, for a test to change."""
    found = {Path("test_a.py"): "1", Path("test_b.py"): "1"}
    monkeypatch.setattr(memory, "subject", found.__getitem__)
    return found


def test_what_passed_is_known_to_later_commands_with_its_rows(tmp_path: Path, subjects: dict[Path, str]) -> None:
    first, other = subjects
    Memory(tmp_path / "passed.json").add(first, [ROW])
    later = Memory(tmp_path / "passed.json")
    assert later.knows(first)
    assert not later.knows(other)
    assert later.rows("test_a") == [ROW]


def test_what_passed_counts_only_as_long_as_nothing_changed(tmp_path: Path, subjects: dict[Path, str]) -> None:
    first, _ = subjects
    Memory(tmp_path / "passed.json").add(first, [])
    subjects[first] = "2"
    assert not Memory(tmp_path / "passed.json").knows(first)


def test_what_is_forgotten_is_unknown(tmp_path: Path, subjects: dict[Path, str]) -> None:
    first, _ = subjects
    found = Memory(tmp_path / "passed.json")
    found.add(first, [])
    found.forget()
    assert not Memory(tmp_path / "passed.json").knows(first)


def call(balancer: Balancer, action: str, host: str) -> subprocess.Popen[bytes]:
    words = [host if "{{" in word else word for word in balancer.command(action)]
    assert words[0] == sys.executable
    return subprocess.Popen(words)


def test_the_balancer_fails_to_let_a_host_return_as_long_as_it_is_told_to(tmp_path: Path) -> None:
    balancer = Balancer(tmp_path / "balancer")
    balancer.refuse("undrain", "alpha")
    assert balancer.calls() == []
    codes = [call(balancer, action, "alpha").wait(timeout=30) for action in ("drain", "undrain")]
    balancer.refuse("undrain", "alpha", False)
    codes.append(call(balancer, "undrain", "alpha").wait(timeout=30))
    assert codes == [0, 1, 0]
    assert balancer.calls() == [("drain", "alpha"), ("undrain", "alpha")]


def test_the_table_names_a_run_once_and_keeps_its_columns() -> None:
    other = Row("run", "bravo", "rolled-back", "6.1.0", "-", "none", "100 s", "kernel: it died")
    lines = table.render([ROW, other]).splitlines()
    assert [line.split()[0] for line in lines] == ["run", "run", "bravo"]
    assert len({line.index(word) for line, word in zip(lines, ("result", "done", "rolled-back"))}) == 1
    assert lines[2].endswith("kernel: it died")


@pytest.mark.parametrize(
    ("pattern", "shown"),
    [
        (None, "-"),
        ("lab-6.1.0-56-amd64*.conf", "6.1.0-56-amd64"),
        ("lab-6.1.0-56-amd64[+.][0-9c][-.0-9o]*", "6.1.0-56-amd64"),
        ("lab-6.1.187-1.x86_64+thp.cloud[+.][0-9c][-.0-9o]*", "6.1.187-1.x86_64+thp.cloud"),
        ("lab-6.1.187-1.x86_64+thp.cloud.conf", "6.1.187-1.x86_64+thp.cloud"),
    ],
)
def test_a_default_is_shown_by_its_kernel(pattern: str | None, shown: str) -> None:
    assert table.default(pattern) == shown


def test_what_grub_starts_is_read_from_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    editenv = shutil.which("grub2-editenv") or shutil.which("grub-editenv")
    assert editenv, "run `make deps`: GRUB's own program is not here"
    (tmp_path / "grub2-editenv").symlink_to(editenv)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(collect, "GRUB", tmp_path / "grubenv")
    subprocess.run([editenv, str(collect.GRUB), "create"], check=True)

    def found(*words: str) -> tuple[str | None, str | None]:
        subprocess.run([str(editenv), str(collect.GRUB), "set", *words], check=True)
        choices = collect.choices()
        return choices["default"], choices["once"]

    assert found("saved_entry=lab-6.1.0", "next_entry=lab-6.1.187") == ("lab-6.1.0.conf", "lab-6.1.187.conf")
    # As GRUB leaves it when it has started that one.
    assert found("next_entry=") == ("lab-6.1.0.conf", None)


def test_that_a_host_is_gone_is_left_to_the_collection_to_notice(tmp_path: Path) -> None:
    """What a lab host that freezes shows is worth nothing if the inventory or the configuration has ssh ask."""
    way = rollouts.way_to(Member("alpha", Vm(tmp_path / "disk", tmp_path, "alpha"), ""))
    configured = f"{way} {play.CONFIG.read_text()}".lower()
    assert "controlpersist" in configured and "userknownhostsfile" in configured
    assert "serveralive" not in configured


def test_a_release_is_known_by_its_packages(tmp_path: Path) -> None:
    kernels = [f"{name}-6.1.187-1.x86_64" for name in (*releases.KERNEL, "kernel-thp-devel", "kernel-thp-selftests")]
    others = ["thp-tools-1.0-1.noarch", "tuned-profiles-thp-1.0-1.noarch", "tuned-profiles-thp-recommend-1.0-1.noarch"]
    for name in (*kernels, *others):
        (tmp_path / f"{name}.rpm").touch()
    found = releases.built(tmp_path)
    assert (found.version, found.uname) == ("6.1.187-1", "6.1.187-1.x86_64+thp.cloud")
    assert found.packages == {*kernels, *others} - {"kernel-thp-devel-6.1.187-1.x86_64", others[2]}
