"""Run a module that changes a host, for the run that holds the host. meta/runtime.yml names these modules.

A failure counts at once, see breaker.py.
"""

from __future__ import annotations

from ansible_collections.kernel_thp.fleet.plugins.action.on_host import ActionModule as OnHost
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import breaker, process
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables


class ActionModule(OnHost):
    """As any module here, with the name of the run as a parameter."""

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        self._task.args.setdefault("run", process.this_run())
        result: Result = super().run(tmp, task_vars)
        # The record action tries again after this one.
        if "held_by" not in result:
            breaker.tell(self._task, task_vars or {}, result)
        return result
