"""Write the reports of runs that were killed."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import report
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.controller import OnController
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import RUN, Journal

ARGUMENTS = {"directory": {"type": "path", "required": True}, "run": {"type": "str", "default": ""}}


class ActionModule(OnController):
    arguments = ARGUMENTS

    def act(self, given: Variables, variables: Variables) -> Result:
        folder = Path(given["directory"]).expanduser()
        if self._task.check_mode:
            return {"aborted": []}
        aborted = report.finish_dead(folder)
        if not given["run"]:
            return {"aborted": aborted}
        chosen = folder / given["run"]
        if not (chosen / RUN).exists():
            return {"failed": True, "msg": f"there is no run in {chosen}", "aborted": aborted}
        report.write(Journal(chosen.resolve()))
        return {"aborted": aborted, "page": str(chosen / "report.html")}
