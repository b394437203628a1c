"""The evaluation of a host in a rollout: what its kernel complained about, by the list that all parts share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, kernel_log, snapshot
from ansible_collections.kernel_thp.fleet.plugins.module_utils.command import Done
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.modules import evaluate

BOOT = "Linux version 6.1.187\n"
BUG, WARNING = "BUG: Bad page state in process a  pfn:1", "WARNING: CPU: 0 PID: 1 at mm/rmap.c:1 f+0x1/0x2"
Answers = dict[str, Done]
Host = Callable[[Answers], list[list[str]]]
Parameters = dict[str, Any]


def validated(*splats: str, **more: object) -> Done:
    """Return what thp-validate prints when it finds these splats, and nothing else."""
    reasons = [{"what": f"the kernel complained: {'; '.join(splats)}", "hint": "reboot"}] if splats else []
    found = {"reasons": reasons, "kernel": {"splats": list(splats)}, "selftests": None, **more}
    return Done(1 if splats else 0, json.dumps(found), "")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Have programs answer as given, and return what is called."""
    monkeypatch.setattr(evaluate, "LOCK", tmp_path / "lock")

    def be(answers: Answers) -> list[list[str]]:
        called = []

        def run(words: Sequence[str], timeout: float = 1.0) -> Done:
            called.append(list(words))
            return answers[words[0]]

        monkeypatch.setattr(command, "run", run)
        monkeypatch.setattr(snapshot, "uname", lambda: "6.1")
        monkeypatch.setattr(snapshot, "boot_id", lambda: "b1")
        return called

    return be


def parameters(**given: object) -> Parameters:
    return {name: given.get(name, about.get("default")) for name, about in evaluate.ARGUMENTS.items()}


def test_the_journal_is_read_and_where_it_does_not_begin_with_the_boot_the_ring_buffer(host: Host) -> None:
    host({"journalctl": Done(0, f"{BOOT}{BUG}\n", "")})
    assert kernel_log.read() == f"{BOOT}{BUG}\n"
    for answer in (Done(0, "-- No entries --\n", ""), Done(1, "", "no journal"), Done(127, "", "not installed")):
        host({"journalctl": answer, "dmesg": Done(0, f"[ 0.0] {BOOT}", "")})
        assert kernel_log.read() == f"[ 0.0] {BOOT}"


def test_a_log_that_cannot_be_read_is_a_problem_and_not_a_good_one(host: Host) -> None:
    host({"journalctl": Done(0, "", ""), "dmesg": Done(0, "the ring buffer is full of other things", "")})
    with pytest.raises(Problem, match="cannot be read"):
        evaluate.work(parameters(), False)


def test_a_complaint_fails_the_host_is_named_once_and_spares_it_the_selftests(host: Host) -> None:
    called = host({"journalctl": Done(0, f"{BOOT}{BUG}\n{BUG}\n", ""), "thp-validate": validated(BUG)})
    result = evaluate.work(parameters(selftests=True), False)
    assert result["failed"]
    assert result["problems"] == [f"the kernel complained: {BUG}; reboot"]
    assert called[-1] == ["thp-validate", "--json"]


@pytest.mark.parametrize("kernel", [{}, {"splats": None}, {"splats": []}])
def test_a_complaint_counts_also_where_thp_validate_does_not_see_it(host: Host, kernel: object) -> None:
    answers = {"journalctl": Done(0, f"{BOOT}{BUG}\n", ""), "thp-validate": validated(kernel=kernel)}
    host(answers)
    assert evaluate.work(parameters(), False)["problems"] == [f"the kernel complained: {BUG}"]
    host({**answers, "thp-validate": Done(127, "", "thp-validate is not installed")})
    bug, mute = evaluate.work(parameters(), False)["problems"]
    assert bug == f"the kernel complained: {BUG}"
    assert "gave no verdict" in mute


def test_a_complaint_during_the_selftests_is_one_that_thp_validate_reports(host: Host) -> None:
    called = host({"journalctl": Done(0, BOOT, ""), "thp-validate": validated(WARNING)})
    assert evaluate.work(parameters(selftests=True), False)["problems"] == [f"the kernel complained: {WARNING}; reboot"]
    assert called[-1] == ["thp-validate", "--json", "--selftests"]


def test_what_an_operator_allows_is_allowed_in_both_places(host: Host) -> None:
    called = host({"journalctl": Done(0, f"{BOOT}{WARNING}\n", ""), "thp-validate": validated()})
    result = evaluate.work(parameters(allowed=["-", "^WARNING: .* f\\+"]), False)
    assert (result["problems"], result["changed"]) == ([], False)
    assert called[-1] == ["thp-validate", "--json", "--allow-log=-", "--allow-log=^WARNING: .* f\\+"]


def test_a_pattern_that_is_none_is_the_operators_mistake(host: Host) -> None:
    host({"journalctl": Done(0, BOOT, "")})
    with pytest.raises(Problem, match="not a regular expression"):
        evaluate.work(parameters(allowed=["("]), False)
