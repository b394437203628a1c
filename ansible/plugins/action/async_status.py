"""Ask for a job that runs on a host, as ansible.builtin.async_status does; losing the host fails."""

from __future__ import annotations

from ansible.plugins.action.async_status import ActionModule as AsyncStatus
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Contact, Result, Variables


class ActionModule(Contact, AsyncStatus):  # type: ignore[misc]
    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        result: Result = super().run(tmp, task_vars)
        # A task that is tried until a job is finished asks for this, also when there is no answer at all.
        result.setdefault("finished", False)
        return result
