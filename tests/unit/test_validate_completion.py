"""The completion for bash, asked by bash itself."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from scripts.console import ROOT
from tests.unit.test_validate_cli import COMMAND, run

ASK = """
source "$1"; shift
asked=$(complete -p thp-validate | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
"$asked" "$1"
printf '%s\\n' "${COMPREPLY[@]}"
"""


def completed(*words: str) -> list[str]:
    """Return what bash would offer for the last word."""
    command = ["bash", "-c", ASK, "bash", str(ROOT / "tools" / "completion.sh"), COMMAND, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return sorted(filter(None, done.stdout.split("\n")))


def test_every_option_is_offered() -> None:
    options = set(re.findall(r"--[a-z-]+", run("--help").stdout))
    assert completed("") == sorted(options)
    assert completed("--json", "--s") == ["--samples", "--schema", "--selftests"]


@pytest.mark.parametrize("option", ["--junit", "--prometheus", "--cgroup"])
def test_paths_are_offered_for_files_and_cgroups(tmp_path: Path, option: str) -> None:
    (tmp_path / "with space").mkdir()
    (tmp_path / "file").touch()
    files = [str(tmp_path / "file")] if option != "--cgroup" else []
    assert completed(option, f"{tmp_path}/") == sorted([*files, str(tmp_path / "with space")])


def test_processes_are_offered_by_their_numbers() -> None:
    assert str(os.getpid()) in completed("--pid", "")
    assert completed("--pid", str(os.getpid())) != []
    assert all(each.isdecimal() for each in completed("--pid", ""))


@pytest.mark.parametrize("option", ["--watch", "--samples", "--allow-log"])
def test_nothing_is_offered_for_what_nobody_can_guess(option: str) -> None:
    assert completed(option, "") == []
