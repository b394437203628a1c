"""Run a module on a host; losing the host fails. meta/runtime.yml names the modules."""

from __future__ import annotations

from ansible.plugins.action.normal import ActionModule as Normal
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Contact, Result, Variables


class Started(Normal):  # type: ignore[misc]
    """As Ansible's own; the result of a background job's start has the id of its boot."""

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        # Read before the start: if the host reboots in between, the id does not match the job's boot.
        boot_id = {"boot_id": self.boot_id()} if self._task.async_val else {}
        return {**super().run(tmp, task_vars), **boot_id}


class ActionModule(Contact, Started):
    """As above, but losing the host fails."""
