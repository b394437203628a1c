"""Losing a host in the middle of a task is a failure like any other.

Ansible does not count an unreachable host as failed: no rescue runs for it, and the next batch goes on. A rollout has
to wait for such a host and bring it back, so its tasks fail instead.
"""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action.normal import ActionModule as Normal

Result = dict[str, Any]
Variables = dict[str, Any]


class Contact:
    """Put before an action plugin's class, it turns `unreachable` into `failed`, with `lost_contact`."""

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        try:
            result: Result = super().run(tmp, task_vars)  # type: ignore[misc]
        except AnsibleConnectionFailure as error:
            return lost(str(error))
        return lost(str(result.get("msg", ""))) if result.get("unreachable") else result


def lost(why: str) -> Result:
    first = " ".join(why.split())[:300]
    return {"failed": True, "lost_contact": True, "msg": f"lost contact with the host: {first}"}


class OnHost(Contact, Normal):  # type: ignore[misc]
    """Run a module of this collection on a host, as any module is run."""
