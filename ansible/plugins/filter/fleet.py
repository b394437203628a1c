"""What the playbooks and roles decide by; the decisions themselves are in plugin_utils."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible import context
from ansible.errors import AnsibleFilterError
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import order, ready, summary, writable


def canaries_first(groups: Mapping[str, Sequence[str]], hosts: order.Names, canaries: order.Names) -> list[str]:
    """Return the hosts of a run in their order. Syntax is checked without the inventory that knows their names."""
    if context.CLIARGS.get("start_at_task"):
        raise AnsibleFilterError("--start-at-task leaves out tasks; do without, each host goes on where it was")
    return [] if context.CLIARGS.get("syntax") else order.canaries_first(groups, hosts, canaries)


def outcome(failed: Mapping[str, Any]) -> str:
    """Return what has become of a host that could not be brought back: lost, or there but not as it was."""
    return "lost" if failed.get("lost_contact") else "failed"


def turned_away(failed: Mapping[str, Any], seen: ready.Seen) -> str:
    """Return what has become of a host that this run did nothing to: that is as it was, unless it was in the middle."""
    if ready.halfway(seen):
        return outcome(failed)
    return "unreachable" if failed.get("lost_contact") else "refused"


def why(failed: Mapping[str, Any]) -> str:
    """Return the reason of a failed task in one line."""
    told = failed.get("msg") or failed.get("module_stderr") or failed.get("stderr")
    return writable.line(told or "no reason was given; see what Ansible said")


class FilterModule:
    def filters(self) -> dict[str, Callable[..., Any]]:
        return {
            "canaries_first": canaries_first,
            "drained": records.drained,
            "finished": ready.finished,
            "halfway": ready.halfway,
            "hindered": ready.hindered,
            "judged": summary.judged,
            "left_behind": ready.left_behind,
            "outcome": outcome,
            "remarks": ready.remarks,
            "turned_away": turned_away,
            "undoable": ready.undoable,
            "unfit": ready.unfit,
            "why": why,
        }
