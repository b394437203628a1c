"""Stop within a batch: no host is drained, or starts the new kernel, once too many hosts of the run have failed.

The hosts of a batch go from task to task together, and Ansible notes failures only when all others are through. So the
task that fails says so itself, at once; a host that waits for a fork sees it when its turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible.playbook.task import Task
from ansible.utils.display import Display
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import encoding, run_dir, summary
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal, Note

# How a host fell. A drain that fails says nothing about the kernel, but much about the drains that would follow.
FAILED, LOST, DRAIN = "failed", "lost", "drain"
# Steps in which the kernel is not to blame: before a host is changed, and after the run has given it up.
OTHERS = ("start", "preflight", "rollback")
Result = Mapping[str, Any]


def exceeded(journal: Journal, drain: bool = False) -> str | None:
    """Return why no further host may be drained, or start the new kernel, or None."""
    fallen = {host: how for host, how in journal.fallen().items() if drain or how != DRAIN}
    run = journal.run()
    lost = [host for host, how in fallen.items() if how == LOST]
    return _too_many(lost, run["max_lost"], "be lost") or _too_many(list(fallen), run["max_failed"], "fail")


def settle(journal: Journal, fallen: Sequence[Note]) -> None:
    """Have the next batch see how the hosts of those before it ended, so that the verdict and a look count the same.

    A host that was lost may have come back since, and one that failed on its new kernel has not said so itself.
    """
    known = journal.fallen()
    for host in fallen:
        lost, step = host["result"] == LOST, (host["failed"] or {}).get("step", OTHERS[0])
        how = LOST if lost else FAILED if step not in OTHERS else None
        if how and known.get(host["host"]) != how:
            journal.fell(host["host"], how, after_all=True)


def _too_many(hosts: Sequence[str], most: int, what: str) -> str | None:
    if len(hosts) <= most:
        return None
    return f"{summary.NOT_BEGUN}this run has failed on {summary.named(hosts)}, and {most} may {what}"


# For tasks; of a play without a journal, such as one of somebody else with our roles, there is nothing to know


def tripped(task: Task, drain: bool = False) -> str | None:
    journal = run_dir.settled()
    return exceeded(journal, drain) if journal and not task.check_mode else None


def tell(task: Task, variables: Result, result: Result, drain: bool = False) -> None:
    """Note that a task has failed, unless its playbook decides whether it has.

    If that cannot be written, the result of the task is still what matters.
    """
    journal = run_dir.settled()
    if not journal or not result.get("failed") or (task.failed_when and not drain):
        return
    host = variables["inventory_hostname"]
    try:
        if drain:
            journal.fell(host, DRAIN)
        elif journal.present_step(host) not in OTHERS:
            journal.fell(host, LOST if result.get("lost_contact") else FAILED)
            journal.fail(host, task.name, encoding.reason(result))
    except (OSError, ValueError) as error:
        Display().warning(f"{host} cannot be noted in {journal.folder}: {error}")
