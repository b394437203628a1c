"""The filters with which playbooks and roles decide; the logic is in plugin_utils."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible import context
from ansible.errors import AnsibleFilterError
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import batches, encoding, ready, summary

# Another kernel may take longer, and so does a boot that checks file systems. After a failed trial the host boots twice
# in a row.
BOOTS = 3


def plan(
    groups: batches.Groups,
    hosts: batches.Names,
    canaries: batches.Names,
    sizes: Sequence[batches.Size] = (),
    domains: Sequence[str] = (),
    share: batches.Size = batches.SHARE,
) -> list[list[str]]:
    """Return the batches of a run; none for --syntax-check, which has no inventory."""
    if context.CLIARGS.get("start_at_task"):
        raise AnsibleFilterError("--start-at-task leaves out tasks; run without it, each host continues where it was")
    if context.CLIARGS.get("syntax"):
        return []
    return batches.plan(groups, hosts, canaries, sizes, domains, share, context.CLIARGS.get("subset"))


def outcome(failed: Mapping[str, Any]) -> str:
    """Return the result of a host whose rollback failed: lost, or failed if it answers."""
    return "lost" if failed.get("lost_contact") else "failed"


def turned_away(failed: Mapping[str, Any], seen: ready.Seen) -> str:
    """Return the result of a host that this run did not change; it may still be in the middle of an earlier rollout."""
    if ready.halfway(seen):
        return outcome(failed)
    return "unreachable" if failed.get("lost_contact") else "refused"


why = encoding.reason


def unusable(patterns: Sequence[str]) -> list[str]:
    """Return those that are no regular expressions, each with the reason."""
    found = []
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            found.append(f"{pattern}: {error}")
    return found


def patience(seconds: int, *records: Mapping[str, Any] | None) -> int:
    """Return how long to wait for a host that boots: as configured, or several times its own boot if that is more.

    `records` are those of the host that are known; without any, or without a measured boot, it is as configured.
    """
    measured = [float((each or {}).get("before", {}).get("boot_seconds", 0)) for each in records]
    return max([int(seconds), *(math.ceil(BOOTS * boot) for boot in measured)])


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "cloned": ready.cloned,
            "drained": records.drained,
            "finished": ready.finished,
            "halfway": ready.halfway,
            "hindered": ready.hindered,
            "evaluated": summary.evaluated,
            "left_behind": ready.left_behind,
            "outcome": outcome,
            "patience": patience,
            "plan": plan,
            "reasons": ready.reasons,
            "remarks": ready.remarks,
            "surveyed": ready.surveyed,
            "turned_away": turned_away,
            "undoable": ready.undoable,
            "unfit": ready.unfit,
            "unusable": unusable,
            "why": why,
        }
