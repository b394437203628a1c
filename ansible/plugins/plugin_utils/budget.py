"""How many hosts of a run may fail, be lost or be unreachable, and whether more were when a batch is over."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible.errors import AnsibleActionFail
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Note

LOST, UNREACHABLE = "lost", "unreachable"
ROLLOUT = "rollout"
UNTRIED = "no host of the first batch is well: repair one, or name another one in thp_fleet_canaries"
WANTED = "give a number of hosts, such as 2, or a percentage of the run's hosts, such as 5%"


def allowed(given: str, hosts: int, variable: str) -> int:
    """Return how many hosts a variable allows. A percentage is rounded down, so 5% of ten hosts is none."""
    found = re.fullmatch(r"(\d+)(%?)", given.strip())
    if found is None or (found[2] and int(found[1]) > 100):
        raise AnsibleActionFail(f"{variable} is {given!r}; {WANTED}")
    return hosts * int(found[1]) // 100 if found[2] else int(found[1])


def seconds(given: str, variable: str) -> int:
    if not given.strip().isdecimal():
        raise AnsibleActionFail(f"{variable} is {given!r}; give a number of seconds, such as 600")
    return int(given)


def excused(run: Note, fallen: Sequence[Note]) -> list[Note]:
    """Return the unreachable hosts that do not count as failed: as many as have a budget of their own.

    Those of the first batch count: without its canaries, nobody has tried the kernel.
    """
    first = set(run["planned"][: sum(run["batches"][:1])])
    silent = [host for host in fallen if host["result"] == UNREACHABLE and host["host"] not in first]
    return silent[: run["max_unreachable"]]


def verdict(run: Note, fallen: Sequence[Note]) -> tuple[bool, str]:
    """Say whether a run has to stop after a batch, and how many hosts failed and may."""
    spared = len(excused(run, fallen))
    failed, lost = len(fallen) - spared, sum(host["result"] == LOST for host in fallen)
    too_many_lost = lost > run["max_lost"]
    exceeded = failed > run["max_failed"] or too_many_lost
    untried = not exceeded and _untried(run, fallen)
    parts = [f"{failed} host{'s' if failed != 1 else ''} failed, {run['max_failed']} allowed"]
    parts += [f"{lost} of them lost, {run['max_lost']} allowed"] if too_many_lost else []
    parts += [f"{spared} more unreachable, {run['max_unreachable']} allowed"] if spared else []
    parts += [UNTRIED] if untried else []
    return exceeded or untried, "; ".join(parts)


def _untried(run: Note, fallen: Sequence[Note]) -> bool:
    """Say whether no canary keeps the kernel of a rollout: then no budget lets other hosts have it."""
    canaries = set(run["planned"][: sum(run["batches"][:1])])
    others = len(run["batches"]) > 1
    return run["playbook"] == ROLLOUT and others and canaries <= {host["host"] for host in fallen}
