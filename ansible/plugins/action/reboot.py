"""Reboot a host within a time limit, as ansible.builtin.reboot does, and say plainly if it does not come back."""

from __future__ import annotations

import datetime

from ansible.plugins.action.reboot import ActionModule as Reboot
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Contact, Result, Variables

HOLDING = "kernel_thp.fleet.record"


class ActionModule(Contact, Reboot):  # type: ignore[misc]
    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        result: Result = super().run(tmp, task_vars)
        # It says "rebooted" as soon as the command for it went through, also of a host that was not seen again.
        if result.get("failed") and result.get("rebooted"):
            result.update(lost_contact=True, msg=f"the host did not come back after the reboot: {result.get('msg')}")
        return result

    def perform_reboot(self, task_vars: Variables, distribution: Result) -> Result:
        """Of what is done to a host this alone is no step of a module of ours, which would look by itself."""
        asked = {"state": "checked", "run": process.this_run()}
        found: Result = self._execute_module(module_name=HOLDING, module_args=asked, task_vars=task_vars)
        if found.get("failed"):
            began = datetime.datetime.now(datetime.timezone.utc)
            return {"failed": True, "rebooted": False, "start": began, "msg": found.get("msg", "")}
        done: Result = super().perform_reboot(task_vars, distribution)
        return done
