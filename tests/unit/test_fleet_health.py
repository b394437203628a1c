"""The health command: a failure shows its reason but not its arguments, and it runs before the rollout."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from ansible_collections.kernel_thp.fleet.plugins.module_utils import command
from ansible_collections.kernel_thp.fleet.plugins.modules import soak

SECRET = "--token=quite-a-secret"
NO_INTERPRETER = "#!/no/such/interpreter\n"
COUNTERS = {"time": 1.0, "uptime": 1000.0, "memory": {}, "events": {}, "pressure_us": None}


def program(folder: Path, content: str, mode: int = 0o755) -> str:
    path = folder / "healthy"
    path.write_text(content)
    path.chmod(mode)
    return str(path)


def unhealthy(*words: str, timeout: int = 60) -> list[str]:
    return soak.unhealthy({"health_command": [*words, SECRET], "health_timeout": timeout})


@pytest.mark.parametrize(
    ("content", "mode", "code", "why"),
    [
        ("#!/bin/sh\n", 0o644, command.NOT_RUN, "Permission denied"),
        ("exit 0\n", 0o755, command.NOT_RUN, "Exec format error"),
        (NO_INTERPRETER, 0o755, command.NOT_THERE, "is not installed"),
    ],
)
def test_a_program_that_cannot_be_started_says_why(
    tmp_path: Path, content: str, mode: int, code: int, why: str
) -> None:
    path = program(tmp_path, content, mode)
    done = command.run([path])
    assert (done.code, done.started) == (code, False)
    (message,) = unhealthy(path)
    assert message.startswith(f"the health command cannot be run: {path}")
    assert message.endswith(why)


def test_what_the_command_is_given_or_says_is_not_told(tmp_path: Path) -> None:
    path = program(tmp_path, f"#!/bin/sh\necho {SECRET}\nexit 126\n")
    assert unhealthy(path) == ["the health command ended with 126"]
    assert unhealthy(program(tmp_path, "#!/bin/sh\nexec sleep 60\n"), timeout=1) == [
        "the health command did not end within 1 s"
    ]
    assert unhealthy(program(tmp_path, "#!/bin/sh\nexit 0\n")) == []


@pytest.mark.parametrize(
    ("exits", "code", "output"),
    [("0", 0, "ok=2"), ("3", 2, "before anything was changed: the health command ended with 3")],
)
def test_it_is_tried_before_anything_is_changed(
    ansible: Mapping[str, str], tmp_path: Path, exits: str, code: int, output: str
) -> None:
    """The tasks of the role, on this machine: they only read."""
    variables = {
        "thp_gate_health_command": [program(tmp_path, f"#!/bin/sh\nexit {exits}\n"), SECRET],
        "thp_preflight_seen": {"host": {"counters": COUNTERS}},
        "ansible_python_interpreter": sys.executable,
    }
    tasks = [{"ansible.builtin.import_role": {"name": "kernel_thp.fleet.preflight", "tasks_from": "health"}}]
    play = {"hosts": "h1", "connection": "local", "gather_facts": False, "vars": variables, "tasks": tasks}
    playbook = tmp_path / "play.yml"
    playbook.write_text(yaml.safe_dump([play]))
    words = ["ansible-playbook", "-i", "h1,", "-vvv", str(playbook)]
    done = subprocess.run(words, env=ansible, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == code, done.stdout
    assert output in done.stdout
    assert SECRET not in done.stdout + done.stderr
