"""Run an operator's program on a host, as ansible.builtin.command does, but losing the host fails.

A program that drains hosts for a rollout runs no more once too many hosts have failed, their drains included.
"""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action.command import ActionModule as Command
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import breaker
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Contact, Result, Variables


class InContact(Contact, Command):  # type: ignore[misc]
    """As any command, but losing the host fails."""

    limited = False


class ActionModule(InContact):
    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        if not boolean(self._task.args.pop("before_trial", False)):
            return super().run(tmp, task_vars)
        if why := breaker.tripped(self._task, drain=True):
            # Not as msg: with no_log, Ansible may hide that.
            return {"failed": True, "not_begun": why}
        result = super().run(tmp, task_vars)
        breaker.tell(self._task, task_vars or {}, result, drain=True)
        return result
