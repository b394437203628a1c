"""The survey: every host is a row, with all that keeps it from taking part, and nothing is changed on any of them.

Beside it check mode, which shows all hosts as well.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def test_a_survey_goes_through_all_batches_and_ends_with_one_table(ansible: Mapping[str, str], tmp_path: Path) -> None:
    """Of one host each, and the first one is a canary."""
    playbooks = collection.SOURCE / "playbooks"
    text = (playbooks / "survey.yml").read_text()
    assert "batch(500)" in text
    playbook = tmp_path / "survey.yml"
    playbook.write_text(text.replace("batch(500)", "batch(1)").replace(" tasks/", f" {playbooks}/tasks/"))
    hosts = {"h1": Host(tmp_path / "h1").variables(), "h2": GONE, "h3": GONE}
    played = play(ansible, tmp_path, hosts, playbook, "-e", "thp_fleet_canaries=h2")
    assert played.code == 2
    report = played.report()
    assert (report["state"], report["planned"], report["batches"]) == ("finished", ["h2", "h1", "h3"], [1, 1, 1])
    assert played.results() == {"h2": "unreachable", "h1": "ready", "h3": "unreachable"}
    assert "2 of 3 hosts cannot take part: h2, h3" in played.output
    tables = re.split(r"(?m)^host +kernel +loader +result +reasons$", played.output)
    assert len(tables) == 2
    assert re.findall(r"(?m)^(h\d)  ", tables[1])[:3] == ["h2", "h3", "h1"]


def test_those_that_cannot_take_part_come_first() -> None:
    ready = {"host": "a", "result": "ready", "failed": None, "facts": {"before": {"uname": "6.1"}, "loader": "grub"}}
    refused = {
        "host": "long-name",
        "result": "refused",
        "failed": {"why": "one / two"},
        "facts": {"reasons": ["one", "two"]},
    }
    gone = {"host": "c", "result": "unreachable", "failed": {"why": "no answer"}, "facts": {}}
    assert summary.table(run(ready, refused, gone)).splitlines() == [
        "host       kernel  loader  result       reasons",
        "long-name  -       -       refused      one",
        "                                        two",
        "c          -       -       unreachable  no answer",
        "a          6.1     grub    ready",
        "",
        "hosts  reason",
        "    1  one",
        "    1  two",
        "    1  no answer",
        "",
        "3 hosts: 1 ready, 1 refused, 1 unreachable",
    ]


def run(*hosts: dict[str, Any], playbook: str = "survey") -> dict[str, Any]:
    """Return a run that is over, as the report has it."""
    counts = dict(sorted(Counter(host["result"] for host in hosts).items()))
    return {"playbook": playbook, "hosts": list(hosts), "counts": counts}


def found(host: str, result: str, *reasons: str, why: str = "") -> dict[str, Any]:
    """Return a host as the report has it."""
    return {"host": host, "result": result, "failed": {"why": why} if why else None, "facts": {"reasons": reasons}}


def test_the_table_ends_with_how_many_hosts_have_each_reason() -> None:
    """What differs from host to host, such as sizes and addresses, does not count."""
    silent = "the host does not answer: ssh: connect to host 192.0.2.{} port 22: No route to host"
    room = "/ has {} MiB free, 1024 MiB are needed; make room"
    hosts = [found(f"h{number}", "refused", room.format(number), "no x; y") for number in range(3)]
    hosts += [found(f"s{number}", "unreachable", why=silent.format(number)) for number in range(2)]
    hosts += [found("good", "ready")]
    assert summary.table(run(*hosts)).split("\n\n")[1].splitlines() == [
        "hosts  reason",
        "    3  / has ... MiB free, ... MiB are needed",
        "    3  no x",
        "    2  the host does not answer",
    ]
    assert "hosts  reason" not in summary.table(run(hosts[-1]))
    many = [found("bad", "refused", *(f"reason-{number}" for number in range(22)))]
    assert summary.table(run(*many)).splitlines()[-4:-2] == ["    1  reason-19", "and 2 more"]


def test_remarks_are_in_the_table_whether_a_host_is_ready_or_not() -> None:
    remarks = {"remarks": ["third-party modules are loaded (zfs): x", "no watchdog"]}
    ready, refused = found("a", "ready"), found("b", "refused", "no room; y")
    hosts = [{**host, "facts": {**host["facts"], **remarks}} for host in (ready, refused)]
    assert summary.table(run(*hosts)).splitlines()[:11] == [
        "host  result   reasons",
        "b     refused  no room; y",
        "               remark: third-party modules are loaded (zfs): x",
        "               remark: no watchdog",
        "a     ready    remark: third-party modules are loaded (zfs): x",
        "               remark: no watchdog",
        "",
        "hosts  reason",
        "    2  remark: third-party modules are loaded (zfs)",
        "    2  remark: no watchdog",
        "    1  no room",
    ]


def test_a_table_has_the_kernel_that_a_host_runs_if_that_is_known() -> None:
    facts = {"before": {"uname": "old"}, "after": {"uname": "new"}}
    results = {"rolled-back": "old", "lost": "-", "refused": "-", "checked": "-", "done": "new", "unchanged": "new"}
    hosts = [{"host": result, "result": result, "failed": None, "facts": facts} for result in results]
    rows = summary.table(run(*hosts, playbook="rollout")).splitlines()[1 : 1 + len(results)]
    assert {row.split()[2]: row.split()[1] for row in rows} == results


def test_why_a_rollback_failed_is_a_reason_of_its_own() -> None:
    host = {"host": "a", "result": "failed", "failed": {"why": "no", "then": "not back"}, "facts": {}}
    lines = summary.table(run(host, playbook="rollout")).splitlines()
    assert lines[:3] == ["host  result  reasons", "a     failed  no", "              not back"]
    assert lines[-1] == "1 host: 1 failed"


def test_of_many_hosts_a_rollout_shows_those_that_are_not_well() -> None:
    hosts = [found(f"h{number}", "done") for number in range(30)]
    hosts += [found("x", "rolled-back", why="no"), *(found(f"l{number}", "not-reached") for number in range(4))]
    lines = summary.table(run(*hosts, playbook="rollout")).splitlines()
    assert lines[:2] == ["host  result       reasons", "x     rolled-back  no"]
    assert lines[2] == ""
    assert lines[-1] == "35 hosts: 30 done, 4 not-reached, 1 rolled-back"
    assert len(summary.table(run(*hosts)).splitlines()) > 35


def test_of_many_hosts_that_cannot_take_part_the_first_are_named() -> None:
    hosts = [{"host": f"h{number:02}"} for number in range(40)]
    message = summary.unready(hosts, 50)
    assert message.startswith("40 of 50 hosts cannot take part: h00, h01, ")
    assert message.endswith(", h19 and 20 more")


def test_check_mode_shows_what_would_happen_to_all_hosts(
    ansible: Mapping[str, str], tmp_path: Path, hosts: dict[str, Host]
) -> None:
    """The first batch has a host that is refused; without check mode the run would end there."""
    names = {"a-bad": hosts["bad"].variables(), "b-good": hosts["good"].variables()}
    played = play(ansible, tmp_path, names, "rollout", "--check", "-e", '{"thp_fleet_serial": [1]}')
    assert played.code == 2
    assert "1 host failed, 0 allowed; a-bad: refused" in played.output
    assert "2 hosts: 1 checked, 1 refused" in played.output
    assert [call["state"] for call in hosts["good"].calls("packages")] == ["installed"]
