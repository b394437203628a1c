"""Stop within a batch: once too many hosts have failed, no other one is drained or starts the new kernel.

Most plays have one fork, so each host of a batch waits until the one before it has ended its task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from scripts import collection
from tests.unit.plays import Variables, play
from tests.unit.simulated import Host

# What Ansible says instead of rebooting the machine that the tests run on.
LOCAL = "with local connection would reboot the control node"
NO_ROOM = {"failed": True, "msg": "there is no room"}
GONE = {"failed": True, "lost_contact": True, "msg": "lost contact with the host: timed out"}
NO_DRAIN = {"failed": True, "rc": 3}
HOOKS = {"thp_preflight_drain_command": ["drain"], "thp_preflight_undrain_command": ["undrain"]}
INSTALL: Variables = {"name": "Install", "kernel_thp.fleet.packages": {"state": "installed", "packages": ["kernel"]}}
DRAIN: Variables = {"name": "Drain", "kernel_thp.fleet.command": {"argv": ["drain"], "before_trial": True}}
# Nobody listens there.
REACH: Variables = {
    "name": "Wait",
    "kernel_thp.fleet.reach": {"timeout": 1},
    "vars": {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1},
}
REBOOT: Variables = {"name": "Reboot", "kernel_thp.fleet.reboot": {"state": "confirmed", "uname": "new"}}
BACK: Variables = {"name": "Reboot", "kernel_thp.fleet.reboot": {"state": "returned"}}


def attempt(
    ansible: Mapping[str, str],
    folder: Path,
    says: Sequence[Mapping[str, object]],
    tasks: Sequence[Variables],
    forks: int = 1,
    **may: int,
) -> dict[str, str]:
    """Have hosts go through tasks of the step kernel, each with its answers to modules; return why each failed."""
    hosts = {f"h{number}": Host(folder / f"h{number}") for number in range(1, len(says) + 1)}
    for host, answers in zip(hosts.values(), says):
        host.be(says=answers)
    begin = {"directory": str(folder / "kernel-thp-reports"), "playbook": "rollout", "state": "begun", **may}
    first = ({"kernel_thp.fleet.note": begin, "run_once": True}, {"kernel_thp.fleet.note": {"step": "kernel"}})
    note = {"failed_task": "a task", "why": "{{ ansible_failed_result | kernel_thp.fleet.why }}", "result": "failed"}
    block = {"block": [*first, *tasks], "rescue": [{"kernel_thp.fleet.note": note}]}
    playbook = folder / "play.yml"
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [block]}]))
    inventory = {name: host.variables() for name, host in hosts.items()}
    played = play({**ansible, "ANSIBLE_FORKS": str(forks)}, folder, inventory, playbook)
    notes = (json.loads(path.read_text()) for path in sorted(played.reports.glob("latest/hosts/*")))
    return {note["host"]: note["failed"]["why"] for note in notes if note["failed"]}


def test_a_host_that_waits_for_its_reboot_sees_that_those_before_it_failed(
    ansible: Mapping[str, str], tmp_path: Path
) -> None:
    found = attempt(ansible, tmp_path, [{}] * 4, [REBOOT], max_failed=1)
    assert [LOCAL in why for why in found.values()] == [True, True, False, False], found
    # A host that was kept from it is not one more on which the kernel failed.
    assert found["h3"] == found["h4"] == "not begun, because this run has failed on h1, h2, and 1 may fail"


def test_with_many_forks_hosts_wait_for_those_before_them_as_well(ansible: Mapping[str, str], tmp_path: Path) -> None:
    tasks = yaml.safe_load((collection.SOURCE / "roles" / "kernel" / "tasks" / "main.yml").read_text())
    (throttle,) = (task["throttle"] for task in tasks if "kernel_thp.fleet.reboot" in task)
    # Ansible refuses to reboot these hosts at once, and so the others would see that anyway.
    drain = {**DRAIN, "throttle": throttle, "vars": {"thp_kernel_reboots": 2}}
    found = attempt(ansible, tmp_path, [{"command": {**NO_DRAIN, "seconds": 3}}] * 4, [drain], forks=10)
    assert [host for host in found if Host(tmp_path / host).calls("command")] == ["h1", "h2"], found


def test_a_host_that_is_gone_before_the_install_counts_before_the_first_reboot(
    ansible: Mapping[str, str], tmp_path: Path
) -> None:
    found = attempt(ansible, tmp_path, [{}, {}], [{**REACH, "when": "inventory_hostname == 'h1'"}, REBOOT])
    assert found["h1"].startswith("the host does not answer")
    assert found["h2"] == "not begun, because this run has failed on h1, and 0 may fail"


def test_hosts_that_fail_in_the_install_count_before_the_first_reboot(
    ansible: Mapping[str, str], tmp_path: Path
) -> None:
    found = attempt(ansible, tmp_path, [{}, {"packages": NO_ROOM}], [INSTALL, REBOOT])
    assert found == {
        "h1": "not begun, because this run has failed on h2, and 0 may fail",
        "h2": "there is no room",
    }


def test_hosts_that_are_lost_have_a_smaller_budget(ansible: Mapping[str, str], tmp_path: Path) -> None:
    found = attempt(ansible, tmp_path, [{"packages": GONE}] * 2 + [{}], [INSTALL, REBOOT], max_failed=3)
    assert found["h3"] == "not begun, because this run has failed on h1, h2, and 1 may be lost"


def test_a_host_that_is_rolled_back_reboots_whatever_has_failed(ansible: Mapping[str, str], tmp_path: Path) -> None:
    found = attempt(ansible, tmp_path, [{}, {"packages": NO_ROOM}], [INSTALL, BACK])
    assert LOCAL in found["h1"]


def test_a_failure_that_a_playbook_expects_is_none(ansible: Mapping[str, str], tmp_path: Path) -> None:
    found = attempt(ansible, tmp_path, [{}, {"packages": NO_ROOM}], [{**INSTALL, "failed_when": False}, REBOOT])
    assert LOCAL in found["h1"], "this was not one"


def test_a_drain_that_failed_keeps_nobody_from_the_kernel(ansible: Mapping[str, str], tmp_path: Path) -> None:
    found = attempt(ansible, tmp_path, [{}, {"command": NO_DRAIN}], [{**DRAIN, "failed_when": False}, REBOOT])
    assert LOCAL in found["h1"]


def test_a_drain_that_failed_keeps_others_from_drains(ansible: Mapping[str, str], tmp_path: Path) -> None:
    hosts = {name: Host(tmp_path / name) for name in ("h1", "h2")}
    hosts["h1"].be(says={"command": NO_DRAIN})
    inventory = {name: host.variables() for name, host in hosts.items()}
    given = json.dumps({"thp_fleet_serial": [2], **HOOKS})
    played = play({**ansible, "ANSIBLE_FORKS": "1"}, tmp_path, inventory, "rollout", "-e", given)
    assert played.failed("h1")["why"] == "the drain command ended with 3"
    assert played.failed("h2")["why"] == "not begun, because this run has failed on h1, and 0 may fail"
    calls = [call.get("_raw_params") or call["argv"] for call in hosts["h2"].calls("command")]
    assert ["drain"] not in calls and ["undrain"] in calls


@pytest.mark.full
def test_failures_in_the_gate_of_one_batch_count_in_the_next_one(ansible: Mapping[str, str], tmp_path: Path) -> None:
    hosts = {name: Host(tmp_path / name) for name in ("h0", "h1", "h2", "h3")}
    hosts["h1"].be(log="[ 1.0] WARNING: CPU: 0 PID: 1 at mm/huge_memory.c:1 f+0x1/0x2")
    hosts["h2"].be(says={"packages": NO_ROOM})
    hosts["h3"].be(reboots=True)
    inventory = {name: host.variables() for name, host in hosts.items()}
    given = json.dumps({"thp_fleet_serial": [2, 2], "thp_fleet_max_failed": 1})
    played = play({**ansible, "ANSIBLE_FORKS": "1"}, tmp_path, inventory, "rollout", "-e", given)
    assert played.failed("h1")["step"] == "gate"
    assert played.failed("h3")["why"] == "not begun, because this run has failed on h1, h2, and 1 may fail"
