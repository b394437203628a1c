"""Make the report of runs that were killed before they could."""

from __future__ import annotations

from pathlib import Path

from ansible.plugins.action import ActionBase
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import report
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import RUN, Journal

ARGUMENTS = {"directory": {"type": "path", "required": True}, "run": {"type": "str", "default": ""}}


class ActionModule(ActionBase):  # type: ignore[misc]
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        self._supports_check_mode = True
        result: Result = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        folder = Path(given["directory"]).expanduser()
        if self._task.check_mode:
            return {**result, "changed": False, "aborted": []}
        aborted = report.finish_dead(folder)
        if not given["run"]:
            return {**result, "changed": False, "aborted": aborted}
        chosen = folder / given["run"]
        if not (chosen / RUN).exists():
            return {**result, "failed": True, "msg": f"there is no run in {chosen}", "aborted": aborted}
        report.write(Journal(chosen.resolve()))
        return {**result, "changed": False, "aborted": aborted, "page": str(chosen / "report.html")}
