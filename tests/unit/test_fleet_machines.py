"""Hosts that are no host of their own: the second name of a machine, and a clone with the record of another one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records

from tests.unit.plays import play
from tests.unit.simulated import RECORD, UUID, Host, rollout

# The hardware of another machine, to which a disk was copied.
OTHER = "5d5d5555"


@pytest.mark.parametrize("serial", [pytest.param(1, marks=pytest.mark.full), 3])
def test_the_second_name_of_one_machine_is_refused(ansible: Mapping[str, str], tmp_path: Path, serial: int) -> None:
    """In the same batch or a later one, after a host that is well; the first name gets as far as its missing tuned."""
    hosts = {name: Host(tmp_path / name) for name in ("a", "b")}
    for host in hosts.values():
        host.be(identity="m1 4c4c4544", tuned_gone=True)
    given = json.dumps({"thp_fleet_serial": [serial], "thp_fleet_max_failed": 2})
    names = {name: host.variables() for name, host in hosts.items()}
    everybody = {"0": Host(tmp_path / "0").variables(), **names}
    played = play(ansible, tmp_path, everybody, "rollout", "-e", given)
    assert played.results() == {"0": "done", "a": "refused", "b": "refused"}
    first, second = sorted(names, key=lambda name: "same machine" in played.failed(name)["why"])
    assert "tuned-adm is missing" in played.failed(first)["why"]
    assert f"this is the same machine as {first}" in played.failed(second)["why"]
    assert hosts[second].calls("repository") == []


@pytest.mark.parametrize("playbook", ["rollout", "rollback"])
@pytest.mark.parametrize(
    ("phase", "machine", "more"),
    [
        ("done", "m0", ""),
        ("armed", "m0 4c4c4544", "was unfinished: see which kernel is the default"),
        ("done", f"clone {OTHER}", "; or, if this is the same host on new hardware, put the new id into that file"),
    ],
)
def test_a_clone_is_refused_whatever_its_record_says(
    ansible: Mapping[str, str], tmp_path: Path, playbook: str, phase: str, machine: str, more: str
) -> None:
    clone = Host(tmp_path / "clone")
    clone.rolled_out(phase, machine=machine)
    before = clone.record
    played = play(ansible, tmp_path, {"clone": clone.variables()}, playbook)
    assert played.results() == {"clone": "refused"}
    why = played.failed("clone")["why"]
    seen = f"is of machine {machine}, this is clone {UUID}; "
    assert f"this host is a clone: /var/lib/kernel-thp/rollout.json {seen}" in why
    assert more in why
    assert (clone.record, clone.is_held) == (before, False)


@pytest.mark.full
def test_a_record_that_names_its_own_machine_or_none_is_no_clones(ansible: Mapping[str, str], tmp_path: Path) -> None:
    old, own = Host(tmp_path / "old"), Host(tmp_path / "own")
    old.write(RECORD, rollout("rolled-back"))
    own.write(RECORD, rollout("rolled-back", machine=f"own {UUID.upper()}"))
    own.be(tuned_gone=True)
    names = {"old": old.variables(), "own": own.variables()}
    given = json.dumps({"thp_fleet_serial": [2], "thp_fleet_max_failed": 2})
    played = play(ansible, tmp_path, names, "rollout", "-e", given)
    assert played.results() == {"old": "done", "own": "refused"}
    assert "tuned-adm is missing" in played.failed("own")["why"]
    assert old.record["machine"] == f"old {UUID}"


@pytest.mark.parametrize(
    ("theirs", "own", "foreign"),
    [
        ("a u", "a u", False),
        ("a U", "a u", False),
        ("a u", "a v", True),
        ("a u", "b u", True),
        ("a", "a u", False),
        ("a u", "u", False),
        ("a u", "b", True),
        ("a u", "", False),
    ],
)
def test_a_machine_is_compared_by_what_is_known_of_it(theirs: str, own: str, foreign: bool) -> None:
    assert records.foreign({"machine": theirs}, own) is foreign
