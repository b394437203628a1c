"""Counting hosts after each batch: each host that was due counts once, whatever variables say."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.unit.plays import GONE, play, there

DIRECTORY = "thp_report_directory"


def test_hosts_with_different_directories_for_reports_are_not_rolled_out_to(
    ansible: Mapping[str, str], tmp_path: Path
) -> None:
    hosts = {"h1": GONE, "h2": {**GONE, DIRECTORY: str(tmp_path / "other")}, "h3": GONE}
    played = play(ansible, tmp_path, hosts, "rollout", "-e", "thp_fleet_max_failed=2")
    assert played.code == 2
    message = f"a run has one {DIRECTORY}: it would be {played.reports}, but h2 has {tmp_path}/other"
    assert message in played.output
    assert not list(tmp_path.glob("*/*/run.json"))


def test_a_directory_is_settled_once_for_a_run(ansible: Mapping[str, str], tmp_path: Path) -> None:
    """Each evaluation of the variable gives another one, as with a date in it that changes during the rollout."""
    another = f"{{{{ lookup('ansible.builtin.pipe', 'mktemp -u {tmp_path}/reports/XXXXXX') }}}}"
    hosts = dict.fromkeys(("h1", "h2"), GONE)
    words = ("-e", "thp_fleet_max_failed=1", "-e", '{"thp_fleet_serial": [1]}')
    played = play(ansible, tmp_path, hosts, "rollback", *words, variables={DIRECTORY: another})
    assert played.code == 2
    assert "2 hosts failed, 1 allowed" in played.output
    (report,) = (tmp_path / "reports").glob("*/2*Z-*/report.json")
    assert json.loads(report.read_text())["counts"] == {"unreachable": 2}


@pytest.mark.parametrize(
    ("playbook", "variable", "given"),
    [
        ("rollout", "thp_fleet_serial", [1]),
        ("rollback", "thp_fleet_domains", ["all"]),
        ("survey", "thp_fleet_canaries", ["h2"]),
        ("validate", "thp_fleet_hosts", ["h2"]),
    ],
)
def test_batches_are_not_given_in_the_inventory(
    ansible: Mapping[str, str], tmp_path: Path, playbook: str, variable: str, given: object
) -> None:
    """Ansible would ignore it without a word: it makes the batches before it reads variables of hosts and groups."""
    hosts = {"h1": GONE, "h2": {**GONE, variable: given}, "h3": GONE}
    played = play(ansible, tmp_path, hosts, playbook, "--limit", "h1,h2")
    assert played.code == 2
    assert f"h2 has {variable} from the inventory or set_fact, which Ansible reads after " in played.output
    assert "it has made the batches; give that by -e" in played.output
    assert not list(tmp_path.glob("*/*/run.json"))


def test_what_is_given_by_e_overrides_the_inventory_for_batches(ansible: Mapping[str, str], tmp_path: Path) -> None:
    given = json.dumps({"thp_fleet_serial": [1, 2], "thp_fleet_max_failed": 3, "thp_fleet_canaries": []})
    variables = {"thp_fleet_serial": [3], "thp_fleet_canaries": "h3"}
    hosts = dict.fromkeys(("h1", "h2", "h3", "h4"), GONE)
    words = ("--limit", "!h4", "-e", given)
    played = play(ansible, tmp_path, hosts, "rollback", *words, variables=variables)
    assert played.report()["counts"] == {"unreachable": 3}
    assert (played.report()["batches"], played.report()["planned"]) == ([1, 2], ["h1", "h2", "h3"])
    assert played.output.count("TASK [Evaluate the batch") == 2


def test_what_a_playbook_gives_overrides_the_inventory_for_batches(ansible: Mapping[str, str], tmp_path: Path) -> None:
    playbook = tmp_path / "site.yml"
    given = {"thp_fleet_hosts": ["h1", "h2"]}
    playbook.write_text(json.dumps([{"import_playbook": "kernel_thp.fleet.survey", "vars": given}]))
    hosts = dict.fromkeys(("h1", "h2", "h3"), GONE)
    played = play(ansible, tmp_path, hosts, playbook, variables={"thp_fleet_hosts": "h3"})
    assert played.results() == {"h1": "unreachable", "h2": "unreachable"}


def test_each_play_of_a_command_is_counted_by_itself(ansible: Mapping[str, str], tmp_path: Path) -> None:
    hosts = {"h1": there(tmp_path), "h2": GONE}
    playbook = tmp_path / "site.yml"
    plays = [{"import_playbook": "kernel_thp.fleet.validate", "vars": {"thp_fleet_hosts": name}} for name in hosts]
    playbook.write_text(json.dumps(plays))
    played = play(ansible, tmp_path, hosts, playbook, "-e", "thp_fleet_max_failed=1")
    assert played.code == 2, "no run that left a host behind ends well"
    assert "1 host failed, 1 allowed; h2: unreachable" in played.output
    found = [json.loads((folder / "report.json").read_text()) for folder in played.runs()]
    assert [(run["state"], run["counts"]) for run in found] == [
        ("finished", {"supported": 1}),
        ("finished", {"unreachable": 1}),
    ]
    assert played.results() == {"h2": "unreachable"}, "the second one is the latest"


@pytest.mark.parametrize(
    ("variable", "wrong"),
    [
        *[("thp_fleet_max_failed", wrong) for wrong in ("one", "-1", "101%", "1.5")],
        ("thp_fleet_max_lost", "-1"),
        ("thp_fleet_max_unreachable", "some"),
        ("thp_fleet_pause", "10m"),
    ],
)
def test_a_budget_that_is_none_ends_the_run_before_any_host_is_touched(
    ansible: Mapping[str, str], tmp_path: Path, variable: str, wrong: str
) -> None:
    played = play(ansible, tmp_path, {"h1": GONE}, "rollout", "-e", json.dumps({variable: wrong}))
    assert played.code == 2
    assert f"{variable} is '{wrong}'; give a number of " in played.output
    assert "TASK [Roll out to the host" not in played.output
    assert not list(tmp_path.glob("*/*/run.json"))


@pytest.mark.parametrize(("budget", "stopped"), [("50%", True), ("75%", False), (2, True), ("3", False)])
def test_a_budget_is_a_number_or_a_share_of_the_hosts(
    ansible: Mapping[str, str], tmp_path: Path, budget: object, stopped: bool
) -> None:
    hosts = {**dict.fromkeys(("h1", "h2", "h3"), GONE), "h4": there(tmp_path)}
    given = json.dumps({"thp_fleet_serial": [3, 1], "thp_fleet_max_failed": budget})
    played = play(ansible, tmp_path, hosts, "rollback", "-e", given)
    assert played.code == 2
    assert played.results()["h4"] == ("not-reached" if stopped else "unchanged")


@pytest.mark.parametrize(("playbook", "stopped"), [("rollout", True), ("rollback", False)])
def test_a_rollout_without_a_canary_that_is_well_goes_no_further(
    ansible: Mapping[str, str], tmp_path: Path, playbook: str, stopped: bool
) -> None:
    """Whatever the budgets say: nobody knows anything of the kernel."""
    hosts = {**dict.fromkeys(("h1", "h2"), GONE), "h3": there(tmp_path)}
    given = json.dumps({"thp_fleet_serial": [2, 1], "thp_fleet_max_failed": "100%"})
    played = play(ansible, tmp_path, hosts, playbook, "-e", given)
    assert played.code == 2
    assert played.results()["h3"] == ("not-reached" if stopped else "unchanged")
    if stopped:
        assert "2 hosts failed, 3 allowed; no host of the first batch is well: repair" in played.output


def test_a_budget_is_the_same_for_all_hosts(ansible: Mapping[str, str], tmp_path: Path) -> None:
    hosts = {"h1": GONE, "h2": {**GONE, "thp_fleet_max_lost": 7}, "h3": GONE}
    played = play(ansible, tmp_path, hosts, "rollout")
    assert played.code == 2
    assert "a run has one thp_fleet_max_lost: it would be 1, but h2 has 7; give it by -e" in played.output
    assert not list(tmp_path.glob("*/*/run.json"))
    played = play(ansible, tmp_path, {"h1": GONE}, "rollout", variables={"thp_fleet_max_lost": 7})
    assert played.report()["max_lost"] == 7, "given to all of them"


def test_a_pause_is_between_batches_and_not_after_the_last(ansible: Mapping[str, str], tmp_path: Path) -> None:
    given = json.dumps({"thp_fleet_serial": [1], "thp_fleet_max_failed": 3, "thp_fleet_pause": 1})
    played = play(ansible, tmp_path, dict.fromkeys(("h1", "h2", "h3"), GONE), "rollback", "-e", given)
    assert played.report()["counts"] == {"unreachable": 3}
    assert played.output.count("Pausing for 1 seconds") == 2


@pytest.mark.parametrize("broken", ["h1", "h2"])
def test_a_host_of_which_ansible_can_make_nothing_has_failed(
    ansible: Mapping[str, str], tmp_path: Path, broken: str
) -> None:
    """It fails in every task, also in those that would note it down."""
    hosts = {**dict.fromkeys(("h1", "h2", "h3"), GONE), broken: {**GONE, "ansible_host": "{{ nowhere }}"}}
    words = ("-e", "thp_fleet_max_failed=1", "-e", '{"thp_fleet_serial": [2, 1]}')
    played = play(ansible, tmp_path, hosts, "rollout", *words)
    assert played.code == 2
    assert "2 hosts failed, 1 allowed" in played.output
    expected = {"h1": "unreachable", "h2": "unreachable", "h3": "not-reached", broken: "failed"}
    assert played.results() == expected
    assert played.failed(broken)["why"].startswith("Ansible dropped it")
    assert played.report()["state"] == "stopped"


def test_the_last_host_of_all_counts_when_ansible_dropped_it(ansible: Mapping[str, str], tmp_path: Path) -> None:
    hosts = {"h1": there(tmp_path), "h2": {**GONE, "ansible_host": "{{ nowhere }}"}}
    played = play(ansible, tmp_path, hosts, "validate")
    assert played.code == 2
    assert "1 host failed, 2 allowed; h2: failed, start failed: Ansible dropped it" in played.output
    assert played.report()["state"] == "finished"
    assert played.results() == {"h1": "supported", "h2": "failed"}


def test_check_mode_leaves_nothing_and_follows_nothing(ansible: Mapping[str, str], tmp_path: Path) -> None:
    """What others put where everybody may put something is none of its business."""
    everybodys = tmp_path / "tmp"
    everybodys.mkdir()
    (everybodys / "kernel-thp-check").write_text("not yours")
    own = {**ansible, "TMPDIR": str(everybodys), "ANSIBLE_LOCAL_TEMP": str(tmp_path / "local")}
    played = play(own, tmp_path, {"h1": there(tmp_path)}, "validate", "--check", "-v")
    assert played.code == 0
    assert "1 hosts, none failed" in played.output
    assert [path.name for path in everybodys.iterdir()] == ["kernel-thp-check"]
    assert list((tmp_path / "local").iterdir()) == []
    assert not played.reports.exists()
