"""Write down, on the controller, what a run does with a host."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ansible.plugins.action import ActionBase
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process, report
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal

ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "playbook": {"type": "str", "default": "rollout"},
    "step": {"type": "str", "default": ""},
    "release": {"type": "str", "default": ""},
    "facts": {"type": "dict", "default": {}},
    "failed_task": {"type": "str", "default": ""},
    "result": {"type": "str", "default": ""},
    "why": {"type": "str", "default": ""},
}


def journal(directory: str, check: bool) -> Journal:
    """Return this run's. In check mode it leaves nothing in the reports' directory."""
    place = Path(tempfile.gettempdir()) / "kernel-thp-check" if check else Path(directory).expanduser()
    return Journal(place / process.this_run())


class ActionModule(ActionBase):  # type: ignore[misc]
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        self._supports_check_mode = True
        result: Result = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        variables = task_vars or {}
        host = variables["inventory_hostname"]
        found = journal(given["directory"], self._task.check_mode)
        planned = variables["ansible_play_hosts_all"]
        found.begin(process.this_run(), given["playbook"], process.controller(), planned, self._task.check_mode)
        if given["step"]:
            found.step(host, given["step"])
        if given["facts"]:
            found.add(host, given["facts"])
        if given["failed_task"]:
            found.fail(host, given["failed_task"], given["why"])
        if given["result"]:
            found.end(host, given["result"], "" if given["failed_task"] else given["why"])
        report.refresh(found)
        about = found.release(given["release"])
        if given["release"] and given["release"] != about:
            # A release was published meanwhile, or repositories differ: one run is about one kernel.
            why = f"this host would get {given['release']}, the run is about {about}; set preflight_release"
            return {**result, "changed": False, "failed": True, "msg": why, "release": about}
        return {**result, "changed": False, "release": about}
