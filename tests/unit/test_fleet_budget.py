"""How many may fail: once more have, no host of the same batch starts the new kernel."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible.errors import AnsibleActionFail
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import budget
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    found = Journal(tmp_path / "run")
    found.begin("run-1", "rollout", "here", ["h1", "h2", "h3", "h4"], check=True, max_failed=1)
    return found


def fail(journal: Journal, host: str, step: str) -> None:
    journal.step(host, step)
    journal.fail(host, "a task", "a reason")


@pytest.mark.parametrize(("given", "number"), [(0, 0), ("3", 3), ("5%", 2), ("1%", 0), ("100%", 50)])
def test_a_share_is_rounded_down(given: object, number: int) -> None:
    assert budget.allowed(str(given), 50) == number


def test_nothing_else_is_a_budget() -> None:
    with pytest.raises(AnsibleActionFail, match="give a number of hosts"):
        budget.allowed("5 %%", 50)


def test_a_failure_counts_at_once_even_if_its_host_is_still_on_the_way_back(journal: Journal) -> None:
    fail(journal, "h1", "kernel")
    assert budget.exceeded(journal) is None
    fail(journal, "h2", "gate")
    journal.step("h2", "rollback")
    assert budget.exceeded(journal) == "not started, because the kernel has failed on h1, h2, and 1 may fail"


def test_hosts_that_were_refused_say_nothing_about_the_kernel(journal: Journal) -> None:
    for host in ("h1", "h2"):
        fail(journal, host, "preflight")
        journal.end(host, "refused")
    journal.fail("h3", "", "dropped")
    assert budget.exceeded(journal) is None
