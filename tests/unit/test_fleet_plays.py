"""Plays of one command: what one of them found out of a host is not taken for what the next one finds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts import collection
from tests.unit.plays import GONE, Played, play
from tests.unit.simulated import Host, rollout

SET, REGISTER = "ansible.builtin.set_fact", "register"
# What Ansible itself passes to a rescue.
FAILURE = {"ansible_failed_task", "ansible_failed_result"}
# What a rollout, or a rollback after it, leaves behind for a host that was rolled back.
LEFT = {
    "thp_fleet_release": "0",
    "thp_fleet_rolled_back": True,
    "thp_preflight_seen": {"host": {}, "record": rollout("booted")},
    "thp_preflight_target": {"release": "0", "uname": "0.x86_64+thp.cloud", "packages": ["core-0"]},
    "thp_preflight_record": rollout("booted"),
    "thp_preflight_held": True,
    "thp_preflight_drained": False,
    "thp_rollback_seen": {"host": {}, "record": rollout("booted")},
    "thp_rollback_held": True,
    "thp_rollback_drained": True,
    "thp_rollback_undone": True,
}


MUTE = {"failed": True, "msg": "thp-validate is not installed"}


def after(
    ansible: Mapping[str, str], folder: Path, playbook: str, hosts: Mapping[str, Mapping[str, object]], *words: str
) -> Played:
    """Play it after another play of the same command, in one batch, however many of its hosts fail."""
    site = folder / "site.yml"
    earlier = {"hosts": "all", "gather_facts": False, "tasks": [{SET: LEFT}]}
    site.write_text(json.dumps([earlier, {"import_playbook": f"kernel_thp.fleet.{playbook}"}]))
    given = json.dumps({"thp_fleet_serial": ["100%"], "thp_fleet_max_failed": 9, "thp_rollback_return_timeout": 1})
    return play(ansible, folder, hosts, site, "-e", given, *words)


@pytest.mark.parametrize("words", [(), ("--check",)])
def test_a_rollout_takes_no_host_for_what_an_earlier_play_had_found(
    ansible: Mapping[str, str], tmp_path: Path, words: tuple[str, ...]
) -> None:
    unfit, done = (Host(tmp_path / name) for name in ("unfit", "done"))
    unfit.be(tuned_gone=True)
    done.rolled_out("done")
    hosts = {"gone": GONE, "unfit": unfit.variables(), "done": done.variables()}
    played = after(ansible, tmp_path, "rollout", hosts, *words)
    assert "2 hosts failed, 9 allowed; gone: unreachable, preflight failed: the host does not answer" in played.output
    assert "; unfit: refused, preflight failed: tuned-adm is missing" in played.output
    # A report is left only without check mode; Ansible's own summary always is.
    assert re.search(r"^done +: .* changed=0 .* rescued=0 ", played.output, re.MULTILINE)
    if not words:
        assert played.results()["done"] == "unchanged"
    assert [call["release"] for call in done.calls("repository")] == [""], "the newest, and not that of another play"


def test_a_rollback_takes_no_host_for_what_an_earlier_play_had_found(
    ansible: Mapping[str, str], tmp_path: Path
) -> None:
    back, out = (Host(tmp_path / name) for name in ("back", "out"))
    back.rolled_out("rolled-back")
    out.rolled_out("rolled-back", drained=True)
    undrain = {"thp_preflight_undrain_command": ["undrain"]}
    hosts = {"gone": GONE, "back": back.variables(), "out": out.variables(**undrain)}
    played = after(ansible, tmp_path, "rollback", hosts)
    assert played.results() == {"gone": "unreachable", "back": "unchanged", "out": "undone"}
    assert "drained" not in out.record


def test_a_host_without_a_verdict_does_not_have_that_of_an_earlier_play(
    ansible: Mapping[str, str], tmp_path: Path
) -> None:
    host = Host(tmp_path / "h1")
    host.be(log="Linux version 6.1")
    mute = host.folder / "like.json"
    between = {
        "hosts": "localhost",
        "gather_facts": False,
        "tasks": [{"ansible.builtin.copy": {"dest": str(mute), "content": json.dumps({"says": {"evaluate": MUTE}})}}],
    }
    site = tmp_path / "site.yml"
    validate = {"import_playbook": "kernel_thp.fleet.validate"}
    site.write_text(json.dumps([validate, between, validate]))
    played = play(ansible, tmp_path, {"h1": host.variables()}, site)
    first, second = (json.loads((folder / "report.json").read_text())["hosts"][0] for folder in played.runs())
    assert (first["result"], second["result"]) == ("supported", "unsupported")
    assert first["facts"]["after"]["verdict"] == "supported"
    assert second["facts"] == {}


def test_what_is_wrong_with_a_host_is_reported_with_its_verdict(ansible: Mapping[str, str], tmp_path: Path) -> None:
    host = Host(tmp_path / "h1")
    defect = "WARNING: CPU: 0 PID: 1 at mm/huge_memory.c:1 f+0x1/0x2"
    host.be(log=f"[ 1.0] {defect}")
    played = play(ansible, tmp_path, {"h1": host.variables()}, "validate")
    assert played.code == 2
    (found,) = played.report()["hosts"]
    assert (found["result"], found["failed"]["why"]) == ("unsupported", defect)
    assert found["facts"]["after"]["uname"]
    # Ansible prints the whole result of a failed task.
    assert '"validate"' not in played.output
    assert "1 host: 1 unsupported" in played.output


def test_the_roles_can_be_played_after_a_rollout(ansible: Mapping[str, str], tmp_path: Path) -> None:
    """That run is over; a play of somebody else has none."""
    host = Host(tmp_path / "h1")
    host.rolled_out("done")
    own = {"hosts": "all", "gather_facts": False, "roles": ["kernel_thp.fleet.preflight"]}
    site = tmp_path / "site.yml"
    site.write_text(json.dumps([{"import_playbook": "kernel_thp.fleet.rollout"}, own]))
    played = play(ansible, tmp_path, {"h1": host.variables()}, site)
    assert played.code == 0, played.output
    assert len(host.calls("repository")) == 2


def facts(found: object) -> Iterator[str]:
    """Yield what tasks in a file of YAML leave for those after them, apart from what is a role's own affair."""
    if isinstance(found, list):
        for item in found:
            yield from facts(item)
    elif isinstance(found, dict):
        named = [*found.get(SET, {}), *([found[REGISTER]] if REGISTER in found else [])]
        yield from (name for name in named if not name.startswith("__"))
        for value in found.values():
            yield from facts(value)


def loaded(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load(path.read_text()))


def test_all_that_is_known_of_a_host_is_forgotten_when_a_play_begins() -> None:
    folder = collection.SOURCE / "playbooks" / "tasks"
    (task,) = loaded(folder / "forget.yml")
    paths = [*collection.SOURCE.glob("roles/*/tasks/*.yml"), *folder.glob("*.yml")]
    known = {name for path in paths for name in facts(loaded(path))}
    assert set(LEFT) <= known
    # The answer of the first task after it is there in any case.
    assert (known | FAILURE) - {"thp_fleet_note"} == set(task[SET])
    assert not any(task[SET].values())
    for name in ("rollout", "rollback", "validate"):
        (play,) = loaded(collection.SOURCE / "playbooks" / f"{name}.yml")
        assert play["tasks"][0]["ansible.builtin.import_tasks"] == "tasks/forget.yml"
