"""The filters with which playbooks and roles decide; the logic is in plugin_utils."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible import context
from ansible.errors import AnsibleFilterError
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import batches, encoding, ready, summary


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


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "drained": records.drained,
            "finished": ready.finished,
            "halfway": ready.halfway,
            "hindered": ready.hindered,
            "evaluated": summary.evaluated,
            "left_behind": ready.left_behind,
            "outcome": outcome,
            "plan": plan,
            "remarks": ready.remarks,
            "turned_away": turned_away,
            "undoable": ready.undoable,
            "unfit": ready.unfit,
            "why": why,
        }
