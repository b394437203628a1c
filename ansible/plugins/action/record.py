"""Run the module record on a host, and replace a holder that is known to be dead."""

from __future__ import annotations

from ansible_collections.kernel_thp.fleet.plugins.action.as_holder import ActionModule as AsHolder
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables


class ActionModule(AsHolder):
    """For the run that holds the host; losing the host fails."""

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        self._task.args.setdefault("controller", process.controller())
        result = super().run(tmp, task_vars)
        other = result.get("held_by")
        if other and process.gone(other["run"], other["controller"]):
            # Only this controller can know that; call the module again with the name.
            self._task.args["instead_of"] = other["run"]
            result = super().run(tmp, task_vars)
        return result
