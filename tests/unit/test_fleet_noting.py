"""The notes about hosts that fail, whatever ssh printed, and whether or not they can be written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.unit.plays import GONE, Variables, play, there

# A way to hosts that does not speak UTF-8 ends here.
GATEWAY = r"""#!/bin/sh
printf 'Acc\350s refus\351\n' >&2
exit 1
"""


def behind_a_gateway(folder: Path) -> Variables:
    """Return the variables of a host that is gone; ssh passes on the gateway's output, without a master connection."""
    program = folder / "gateway"
    program.write_text(GATEWAY)
    program.chmod(0o755)
    return {
        **GONE,
        "ansible_ssh_args": "-o ControlMaster=no",
        "ansible_ssh_common_args": f"-o ProxyCommand={program}",
    }


def test_a_byte_that_is_no_text_keeps_nobody_from_being_noted(ansible: Mapping[str, str], tmp_path: Path) -> None:
    hosts = {"h1": behind_a_gateway(tmp_path), "h2": there(tmp_path)}
    played = play(ansible, tmp_path, hosts, "rollout", "-e", '{"thp_fleet_serial": [2]}')
    assert played.results() == {"h1": "unreachable", "h2": "refused"}
    assert "Acc?s refus?" in played.failed("h1")["why"]
    assert "Acc?s refus?" in (played.reports / "latest" / "report.html").read_text()


# A controller on which nothing can be written any more: where the files of hosts were, there is no directory.
UNWRITABLE = "rm -rf {latest}/hosts && touch {latest}/hosts"


def spoil(folder: Path) -> str:
    return UNWRITABLE.format(latest=folder / "kernel-thp-reports" / "latest")


def test_a_host_is_rolled_back_although_that_cannot_be_noted(ansible: Mapping[str, str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    host = there(tmp_path, f'echo "$1" >> {log}; {spoil(tmp_path)}')
    words = ("-e", '{"thp_fleet_serial": [1], "thp_fleet_max_failed": 2, "thp_preflight_held": true}')
    played = play(ansible, tmp_path, {"h1": host, "h2": GONE}, "rollout", *words)
    # This module releases the host, the last thing that a run does with it.
    assert log.read_text().splitlines()[-1].endswith("AnsiballZ_record.py")
    assert "Release the host" in played.output and "Note that the rollback failed" not in played.output
    assert "[WARNING]: h1 cannot be noted in" in played.output
    # Nobody can know how it ended, so the run does not begin another host.
    assert played.code == 2
    assert played.output.count("Note that preflight begins") == 1


def test_a_run_that_cannot_write_begins_nothing(ansible: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / "kernel-thp-reports").touch()
    log = tmp_path / "log"
    played = play(ansible, tmp_path, {"h1": there(tmp_path, f"touch {log}")}, "rollout")
    assert played.code == 2
    assert not log.exists()


def test_a_host_that_cannot_be_noted_gets_no_kernel(ansible: Mapping[str, str], tmp_path: Path) -> None:
    begin = {"state": "begun", "directory": str(tmp_path / "kernel-thp-reports"), "playbook": "rollout"}
    tasks: list[Variables] = [
        {"name": "Begin the run", "kernel_thp.fleet.note": begin},
        {"name": "Have nothing be written any more", "ansible.builtin.raw": spoil(tmp_path)},
        {"name": "Note that preflight begins", "kernel_thp.fleet.note": {"step": "preflight"}},
        {
            "name": "Note what will be done",
            "kernel_thp.fleet.note": {"release": "1-1", "facts": {"release": "1-1"}},
        },
    ]
    playbook = tmp_path / "play.yml"
    playbook.write_text(json.dumps([{"hosts": "h1", "gather_facts": False, "tasks": tasks}]))
    played = play(ansible, tmp_path, {"h1": there(tmp_path)}, playbook)
    assert played.code == 2
    assert "[WARNING]: h1 cannot be noted in" in played.output
    assert played.output.index("TASK [Note what will be done]") < played.output.index("FAILED! =>")
