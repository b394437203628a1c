"""How many hosts may fail, be lost or be unreachable, after a batch; within one, see test_fleet_breaker.py."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import breaker, budget
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal

# Ten hosts, of which the first two are the canaries.
RUN: dict[str, Any] = {"playbook": "rollout", "planned": [f"h{number}" for number in range(10)], "batches": [2, 8]}
UNTRIED = "no host of the first batch is well: repair one, or name another one in thp_fleet_canaries"


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    found = Journal(tmp_path / "run")
    found.begin("run-1", "rollout", "here", ["h1", "h2", "h3", "h4"], check=True, max_failed=1, max_lost=0)
    return found


@pytest.mark.parametrize(("given", "number"), [(0, 0), ("3", 3), ("5%", 2), ("1%", 0), ("100%", 50)])
def test_a_share_is_rounded_down(given: object, number: int) -> None:
    assert budget.allowed(str(given), 50, "a variable") == number


def test_nothing_else_is_a_budget() -> None:
    with pytest.raises(AnsibleActionFail, match="thp_fleet_max_lost is '5 %%'; give a number of hosts"):
        budget.allowed("5 %%", 50, "thp_fleet_max_lost")


def fallen(*results: str) -> list[dict[str, Any]]:
    """Return the last hosts of the run with these results."""
    names = RUN["planned"][len(RUN["planned"]) - len(results) :]
    return [{"host": name, "result": result} for name, result in zip(names, results)]


@pytest.mark.parametrize(
    ("budgets", "results", "stops", "count"),
    [
        ((1, 9, 0), ["failed"], False, "1 host failed, 1 allowed"),
        ((1, 9, 0), ["failed", "rolled-back"], True, "2 hosts failed, 1 allowed"),
        ((9, 1, 0), ["lost", "failed"], False, "2 hosts failed, 9 allowed"),
        ((9, 1, 0), ["lost", "lost"], True, "2 hosts failed, 9 allowed; 2 of them lost, 1 allowed"),
        ((0, 1, 2), ["unreachable"] * 2, False, "0 hosts failed, 0 allowed; 2 more unreachable, 2 allowed"),
        ((0, 1, 2), ["unreachable"] * 3, True, "1 host failed, 0 allowed; 2 more unreachable, 2 allowed"),
        ((0, 1, 2), ["unreachable", "refused"], True, "1 host failed, 0 allowed; 1 more unreachable, 2 allowed"),
        ((8, 1, 9), ["unreachable"] * 9, False, "1 host failed, 8 allowed; 8 more unreachable, 9 allowed"),
        ((8, 1, 9), ["unreachable"] * 10, True, f"2 hosts failed, 8 allowed; 8 more unreachable, 9 allowed; {UNTRIED}"),
        ((1, 1, 9), ["unreachable"] * 10, True, "2 hosts failed, 1 allowed; 8 more unreachable, 9 allowed"),
    ],
)
def test_each_budget_stops_a_run_and_unreachable_canaries_have_failed(
    budgets: tuple[int, int, int], results: list[str], stops: bool, count: str
) -> None:
    run = {**RUN, **dict(zip(("max_failed", "max_lost", "max_unreachable"), budgets))}
    assert budget.verdict(run, fallen(*results)) == (stops, count)


@pytest.mark.parametrize(
    ("change", "failed", "stops"),
    [
        ({}, ["h0", "h1"], True),
        ({}, ["h0", "h9"], False),
        ({"playbook": "rollback"}, ["h0", "h1"], False),
        ({"batches": [10]}, [f"h{number}" for number in range(10)], False),
    ],
)
def test_no_budget_lets_others_have_a_kernel_that_no_canary_keeps(
    change: dict[str, Any], failed: list[str], stops: bool
) -> None:
    run = {**RUN, "max_failed": 10, "max_lost": 1, "max_unreachable": 0, **change}
    found = budget.verdict(run, [{"host": name, "result": "rolled-back"} for name in failed])
    count = f"{len(failed)} hosts failed, 10 allowed"
    assert found == (stops, f"{count}; {UNTRIED}" if stops else count)


def test_a_failure_counts_at_once_and_once(journal: Journal) -> None:
    journal.fell("h1", breaker.FAILED)
    journal.fell("h1", breaker.LOST)
    assert breaker.exceeded(journal) is None
    journal.fell("h2/x", breaker.FAILED)
    assert breaker.exceeded(journal) == "not begun, because this run has failed on h1, h2/x, and 1 may fail"


def test_a_lost_host_can_be_one_too_many(journal: Journal) -> None:
    journal.fell("h1", breaker.LOST)
    assert breaker.exceeded(journal) == "not begun, because this run has failed on h1, and 0 may be lost"


def test_drains_that_failed_end_drains_and_not_reboots(journal: Journal) -> None:
    for host in ("h1", "h2"):
        journal.fell(host, breaker.DRAIN)
    assert breaker.exceeded(journal) is None
    assert breaker.exceeded(journal, drain=True) == "not begun, because this run has failed on h1, h2, and 1 may fail"


def ended(host: str, result: str, step: str) -> dict[str, Any]:
    return {"host": host, "result": result, "failed": {"step": step, "task": "a task", "why": "it failed"}}


def test_a_host_that_was_lost_and_came_back_is_not_lost_for_the_next_batch(journal: Journal) -> None:
    journal.fell("h1", breaker.LOST)
    breaker.settle(journal, [ended("h1", "rolled-back", "kernel")])
    assert journal.fallen() == {"h1": breaker.FAILED}
    assert breaker.exceeded(journal) is None


def test_every_failure_on_the_new_kernel_counts_for_the_next_batch(journal: Journal) -> None:
    """A host that failed in the gate or the soak says nothing itself, nor does one that is lost in its rollback."""
    journal.fell("h4", breaker.DRAIN)
    journal.fell("h2", breaker.FAILED)
    hosts = [("h1", "rolled-back", "soak"), ("h2", "lost", "kernel"), ("h3", "refused", "preflight")]
    breaker.settle(journal, [ended(*host) for host in [*hosts, ("h4", "rolled-back", "preflight")]])
    assert journal.fallen() == {"h1": breaker.FAILED, "h2": breaker.LOST, "h4": breaker.DRAIN}


@pytest.mark.parametrize("drain", [True, False])
def test_a_failure_that_cannot_be_written_does_not_replace_the_result(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, drain: bool
) -> None:
    shutil.rmtree(journal.folder / "fallen")
    journal.step("h1", "kernel")
    warned: list[str] = []
    monkeypatch.setattr(breaker.Display, "warning", lambda _, text: warned.append(text))
    monkeypatch.setattr(breaker.run_dir, "settled", lambda: journal)
    task = SimpleNamespace(failed_when=[], name="a task")
    breaker.tell(task, {"inventory_hostname": "h1"}, {"failed": True, "msg": "it panicked"}, drain)
    assert [text.partition(":")[0] for text in warned] == [f"h1 cannot be noted in {journal.folder}"]


def test_a_look_at_the_failures_reads_no_host(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each host of thousands looks, twice."""
    journal.fell("h1", breaker.FAILED)
    monkeypatch.setattr(Journal, "notes", lambda _: pytest.fail("it read the journal of all hosts"))
    assert breaker.exceeded(journal) is None
