"""Hosts that go silent: each of them is lost after some time, and none keeps a run waiting."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import contact
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Contact

# A port on which nobody listens.
NOBODY = 1
# ssh itself prints what it would do.
EXEC = "SSH: EXEC "


def call(ansible: Mapping[str, str], folder: Path, variables: Mapping[str, object], *words: str) -> str:
    """Call one module of the collection on a host, and return Ansible's output."""
    inventory = folder / "inventory.json"
    inventory.write_text(json.dumps({"all": {"hosts": {"h1": {**variables}}}}))
    command = ["ansible", "-i", str(inventory), "h1", *words]
    return subprocess.run(command, env=ansible, capture_output=True, text=True, check=False, timeout=120).stdout


def effective(output: str) -> dict[str, str]:
    """Return the settings that ssh takes from the first command line that Ansible gave it."""
    line = next(line.partition(EXEC)[2] for line in output.splitlines() if EXEC in line)
    words = shlex.split(line)
    at = words.index("127.0.0.1")
    options = subprocess.run([words[0], "-G", *words[1 : at + 1]], capture_output=True, text=True, check=True).stdout
    return dict(line.split(maxsplit=1) for line in options.splitlines() if " " in line)


@pytest.mark.parametrize(
    ("own", "interval"),
    [
        ({}, "15"),
        ({"ansible_ssh_args": "-o ServerAliveInterval=5"}, "5"),
        ({"ansible_ssh_extra_args": "-o ServerAliveInterval=6"}, "6"),
    ],
)
def test_ssh_asks_whether_the_host_is_there_unless_told_otherwise(
    ansible: Mapping[str, str], tmp_path: Path, own: dict[str, str], interval: str
) -> None:
    variables = {"ansible_host": "127.0.0.1", "ansible_port": NOBODY, **own}
    output = call(ansible, tmp_path, variables, "-vvv", "-m", "kernel_thp.fleet.reach", "-a", "timeout=1")
    assert "the host does not answer" in output
    found = effective(output)
    assert (found["serveraliveinterval"], found["serveralivecountmax"]) == (interval, "4")


def sleeper(folder: Path) -> str:
    """Return a program that never answers."""
    path = folder / "sleeper"
    path.write_text("#!/bin/sh\nexec sleep 120\n")
    path.chmod(0o755)
    return str(path)


def test_a_host_that_does_not_answer_at_all_is_lost_after_the_limit(ansible: Mapping[str, str], tmp_path: Path) -> None:
    python = sleeper(tmp_path)
    variables = {"ansible_connection": "local", "ansible_python_interpreter": python, "thp_fleet_step_timeout": 2}
    began = time.monotonic()
    output = call(ansible, tmp_path, variables, "-m", "kernel_thp.fleet.host_info")
    assert time.monotonic() - began < 60
    assert "FAILED!" in output
    assert '"lost_contact": true' in output
    assert "it has not answered within 2 s" in output


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("reach", "timeout=2 connect_timeout=1 sleep=1"), ("reboot", "state=returned reboot_timeout=2")],
)
def test_a_task_with_less_time_than_a_step_waits_no_longer_for_an_answer(
    ansible: Mapping[str, str], tmp_path: Path, module: str, arguments: str
) -> None:
    """The connection is there, and nothing comes of what it is given; ssh itself can be told to end it."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\ncase " $* " in *" -O "*) exit 255 ;; esac\nexec {sleeper(tmp_path)}\n')
    ssh.chmod(0o755)
    mute = {"ansible_ssh_executable": str(ssh), "ansible_python_interpreter": "/usr/bin/python3"}
    variables = {"ansible_host": "127.0.0.1", **mute, "thp_fleet_step_timeout": 300}
    began = time.monotonic()
    output = call(ansible, tmp_path, variables, "-m", f"kernel_thp.fleet.{module}", "-a", arguments)
    assert time.monotonic() - began < 60
    assert "FAILED!" in output
    assert '"lost_contact": true' in output


def test_a_limit_is_kept_to_by_whoever_tries_again_after_errors() -> None:
    def stubborn() -> None:
        for _ in range(3):
            try:
                time.sleep(5)
            except Exception:
                continue

    began = time.monotonic()
    with pytest.raises(AnsibleConnectionFailure, match="not answered within 0 s"), contact.answer_within(0.2):
        stubborn()
    assert time.monotonic() - began < 4
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_a_limit_does_not_outlast_what_it_is_for() -> None:
    with contact.answer_within(0.2):
        pass
    time.sleep(0.4)


class Lost:
    """An action plugin whose host is gone: Ansible's own would fail again when it removes what it left there."""

    _connection: Any = None
    _task: Any = None
    calls = 0

    def run(self, tmp: str | None, task_vars: dict[str, Any] | None) -> dict[str, Any]:
        raise AnsibleConnectionFailure("no route to host")

    def cleanup(self, force: bool) -> None:
        Lost.calls += 1
        raise AnsibleConnectionFailure("no route to host")


def test_a_host_that_is_lost_stays_a_failure_when_nothing_can_be_removed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contact, "keep_alive", lambda connection: None)

    class Plugin(Contact, Lost):
        limited = False

    plugin = Plugin()
    plugin.cleanup()
    assert Lost.calls == 1
    result = plugin.run()
    assert result == {
        "failed": True,
        "lost_contact": True,
        "msg": "lost contact with the host: no route to host",
    }
    plugin.cleanup()
    assert Lost.calls == 1, "a host that is gone is not contacted again"
