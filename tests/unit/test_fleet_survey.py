"""The survey: every host is a row, with all that keeps it from taking part, and nothing is changed on any of them.

Beside it check mode, which shows all hosts as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import summary

from scripts import collection
from tests.unit.plays import GONE, Played, play
from tests.unit.simulated import HOLDER, RECORD, Host

NO_REPOSITORY = {"failed": True, "msg": "the repository cannot be used: Unknown repo: 'kernel-thp'; put its file there"}
CHANGING = ("packages", "boot", "profile", "reboot", "command")


@pytest.fixture
def hosts(tmp_path: Path) -> dict[str, Host]:
    found = {name: Host(tmp_path / name) for name in ("good", "bad", "clone", "held")}
    found["bad"].be(tuned_gone=True, says={"repository": NO_REPOSITORY})
    found["clone"].rolled_out("done", machine="m0")
    found["held"].held_by("r0", "elsewhere")
    return found


def survey(ansible: Mapping[str, str], folder: Path, hosts: Mapping[str, Host], *words: str) -> Played:
    return play(ansible, folder, {"gone": GONE, **{name: hosts[name].variables() for name in hosts}}, "survey", *words)


def test_every_host_is_a_row_with_all_its_reasons(
    ansible: Mapping[str, str], tmp_path: Path, hosts: dict[str, Host]
) -> None:
    before = {name: (host.read(RECORD), host.read(HOLDER)) for name, host in hosts.items()}
    played = survey(ansible, tmp_path, hosts)
    assert played.code == 2, played.output
    refused = dict.fromkeys(("bad", "clone", "held"), "refused")
    assert played.results() == {"gone": "unreachable", "good": "ready", **refused}
    schema = json.loads((collection.SOURCE / "schemas" / "report.schema.json").read_text())
    jsonschema.validate(played.report(), schema)
    facts = {host["host"]: host["facts"] for host in played.report()["hosts"]}
    assert facts["good"]["loader"] == "systemd-boot"
    assert [len(facts[name]["reasons"]) for name in ("good", "bad", "clone", "held")] == [0, 2, 1, 1]
    assert "4 of 5 hosts cannot take part: " in played.output
    rows = [line.split()[:4] for line in played.output.splitlines() if re.match(r"(gone|good|bad|clone|held)  ", line)]
    table = {row[0]: row[3] for row in rows if not row[1].startswith(":")}
    assert table == played.results()
    assert "tuned-adm is missing" in played.output
    assert {name: (host.read(RECORD), host.read(HOLDER)) for name, host in hosts.items()} == before
    assert [call for host in hosts.values() for module in CHANGING for call in host.calls(module)] == []


def test_what_a_rollout_would_refuse_or_roll_back_is_not_ready(ansible: Mapping[str, str], tmp_path: Path) -> None:
    """Hosts in the middle of a rollback or another release, and variables with which no host can take part."""
    hosts = {name: Host(tmp_path / name) for name in ("cut", "goes-on", "other", "pattern", "role")}
    hosts["cut"].rolled_out("rolling-back")
    hosts["goes-on"].rolled_out("armed")
    hosts["other"].rolled_out("armed")
    hosts["other"].be(newest="2")
    inventory = {name: host.variables() for name, host in hosts.items()}
    inventory["pattern"] = hosts["pattern"].variables(thp_gate_log_allowed=["("])
    inventory["role"] = hosts["role"].variables(thp_preflight_drain_role="missing")
    played = play(ansible, tmp_path, inventory, "survey")
    facts = {host["host"]: host["facts"] for host in played.report()["hosts"]}
    found = {name: [reason.partition(";")[0] for reason in about["reasons"]] for name, about in facts.items()}
    assert found.pop("role")[0].startswith("the role missing cannot be used: ")
    assert found == {
        "cut": ["a rollback was cut off on this host, and has to be finished first: run kernel_thp.fleet.rollback"],
        "goes-on": [],
        "other": ["a rollout of 1.x86_64+thp.cloud on this host is not finished (armed)"],
        "pattern": ["thp_gate_log_allowed and thp_gate_services_allowed take regular expressions"],
    }
    assert played.results() == {**dict.fromkeys(hosts, "refused"), "goes-on": "ready"}


def test_a_fleet_that_is_ready_ends_well(ansible: Mapping[str, str], tmp_path: Path, hosts: dict[str, Host]) -> None:
    played = play(ansible, tmp_path, {"good": hosts["good"].variables()}, "survey")
    assert played.code == 0, played.output
    assert played.results() == {"good": "ready"}
    assert [step["ok"] for step in played.report()["hosts"][0]["steps"]] == [True]


def test_those_that_cannot_take_part_come_first() -> None:
    ready = {"host": "a", "result": "ready", "failed": None, "facts": {"before": {"uname": "6.1"}, "loader": "grub"}}
    refused = {
        "host": "long-name",
        "result": "refused",
        "failed": {"why": "one / two"},
        "facts": {"reasons": ["1", "2"]},
    }
    gone = {"host": "c", "result": "unreachable", "failed": {"why": "no answer"}, "facts": {}}
    assert summary.table([ready, refused, gone]).splitlines() == [
        "host       kernel  loader  verdict      reasons",
        "long-name  -       -       refused      1",
        "                                        2",
        "c          -       -       unreachable  no answer",
        "a          6.1     grub    ready",
    ]


def test_check_mode_shows_what_would_happen_to_all_hosts(
    ansible: Mapping[str, str], tmp_path: Path, hosts: dict[str, Host]
) -> None:
    """The first batch has a host that is refused; without check mode the run would end there."""
    names = {"a-bad": hosts["bad"].variables(), "b-good": hosts["good"].variables()}
    played = play(ansible, tmp_path, names, "rollout", "--check", "-e", '{"thp_fleet_serial": [1]}')
    assert played.code == 2
    assert "1 host failed, 0 allowed; a-bad: refused" in played.output
    assert [call["state"] for call in hosts["good"].calls("packages")] == ["installed"]
