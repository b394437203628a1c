"""The Makefile is the only front door: every target explains itself, and CI uses no other way in."""

from __future__ import annotations

import re
import subprocess

from scripts.console import ROOT

MAKEFILE = (ROOT / "Makefile").read_text()


def test_help_lists_every_target() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    told = subprocess.run(["make", "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[0] for line in told.splitlines()} == set(phony[1].split())


def test_every_module_a_target_runs_exists() -> None:
    for module in re.findall(r"-m ((?:scripts|tests)[\w.]+)", MAKEFILE):
        assert (ROOT / f"{module.replace('.', '/')}.py").exists(), module


def test_ci_calls_make_check_and_nothing_else() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    commands = [line for line in lines if line and not line.startswith(("#", "set ", "cd "))]
    assert commands == ["exec make check"]
