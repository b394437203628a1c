"""Wait until a host answers, as wait_for_connection does, and say plainly if it does not."""

from __future__ import annotations

from ansible.plugins.action.wait_for_connection import ActionModule as WaitForConnection
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Contact, Result, Variables


class ActionModule(Contact, WaitForConnection):  # type: ignore[misc]
    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        # Asking changes nothing, so it is done in check mode as well.
        self._task.check_mode = False
        result: Result = super().run(tmp, task_vars)
        if result.get("failed") and not result.get("lost_contact"):
            result.update(lost_contact=True, msg=f"the host does not answer: {' '.join(result['msg'].split())[:300]}")
        return result
