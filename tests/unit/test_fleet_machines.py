"""Hosts that are no host of their own: the second name of a machine, and a clone with the record of another one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.plays import play
from tests.unit.simulated import RECORD, Host, rollout


@pytest.mark.parametrize("serial", [1, 2])
def test_the_second_name_of_one_machine_is_refused(ansible: Mapping[str, str], tmp_path: Path, serial: int) -> None:
    first, second = Host(tmp_path / "first"), Host(tmp_path / "second")
    first.be(identity="m1 4c4c4544")
    second.be(identity="m1 4c4c4544")
    names = {"a": first.variables(), "b": second.variables()}
    given = json.dumps({"thp_fleet_serial": [serial], "thp_fleet_max_failed": 2})
    played = play(ansible, tmp_path, names, "rollout", "-e", given)
    assert sorted(played.results().values()) == ["done", "refused"]
    (other,) = (name for name, result in played.results().items() if result == "refused")
    assert f"this is the same machine as {'a' if other == 'b' else 'b'}" in played.failed(other)["why"]
    assert not {"a": first, "b": second}[other].record


@pytest.mark.parametrize(
    ("phase", "more"), [("done", ""), ("armed", "was unfinished: see which kernel is the default")]
)
def test_a_clone_is_refused_whatever_its_record_says(
    ansible: Mapping[str, str], tmp_path: Path, phase: str, more: str
) -> None:
    clone = Host(tmp_path / "clone")
    clone.rolled_out(phase, machine="m0")
    before = clone.record
    played = play(ansible, tmp_path, {"clone": clone.variables()}, "rollout")
    assert played.results() == {"clone": "refused"}
    why = played.failed("clone")["why"]
    assert "this host is a clone: /var/lib/kernel-thp/rollout.json is of machine m0, this is m1" in why
    assert more in why
    assert (clone.record, clone.is_held) == (before, False)


def test_a_record_that_names_its_own_machine_or_none_is_no_clones(ansible: Mapping[str, str], tmp_path: Path) -> None:
    old, own = Host(tmp_path / "old"), Host(tmp_path / "own")
    old.write(RECORD, rollout("rolled-back"))
    own.write(RECORD, rollout("rolled-back", machine="m1"))
    names = {"old": old.variables(), "own": own.variables()}
    played = play(ansible, tmp_path, names, "rollout", "-e", '{"thp_fleet_serial": [2]}')
    assert played.results() == {"old": "done", "own": "done"}
    assert (old.record["machine"], own.record["machine"]) == ("m1", "m1")
