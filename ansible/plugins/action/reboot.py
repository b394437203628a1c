"""Reboot a host within a time limit, as ansible.builtin.reboot does, and say plainly if it does not come back."""

from __future__ import annotations

from ansible.plugins.action.reboot import ActionModule as Reboot
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Contact, Result, Variables


class ActionModule(Contact, Reboot):  # type: ignore[misc]
    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        result: Result = super().run(tmp, task_vars)
        # It says "rebooted" as soon as the command for it went through, also of a host that was not seen again.
        if result.get("failed") and result.get("rebooted"):
            result.update(lost_contact=True, msg=f"the host did not come back after the reboot: {result.get('msg')}")
        return result
