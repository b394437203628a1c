"""Wait until a host answers, as wait_for_connection does, and fail plainly if it does not.

A host that is shutting down still answers for a while, and would cut off whatever starts then, so wait for it as well.
Most hosts answer at once, and many steps begin with this task: it sends one command over the open connection, while
Ansible's own opens a new one and sends a program.
"""

from __future__ import annotations

import time

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action.wait_for_connection import ActionModule as WaitForConnection
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import breaker
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Contact, Result, Variables, keep_alive

STATE, LEAVING = "systemctl is-system-running", "stopping"
POLL = 1.0
# Seconds that an answer may take at the end of the task's time, if the task has had as many.
LAST_ANSWER = 30


class Answer(Contact, WaitForConnection):  # type: ignore[misc]
    """As Ansible's own, but losing the host fails."""


class Reach(Answer):
    _limit_of_answers = 0

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        # This changes nothing, so run it in check mode as well.
        self._task.check_mode = False
        if self._answers_at_once():
            return {"changed": False}
        timeout = int(self._task.args.get("timeout", self.DEFAULT_TIMEOUT))
        self._limit_of_answers = timeout
        deadline = time.monotonic() + timeout
        while True:
            result = super().run(tmp, task_vars)
            if result.get("failed"):
                return silent(str(result["msg"])) if not result.get("lost_contact") else result
            if self._state() not in (None, LEAVING):
                return result
            left = deadline - time.monotonic()
            if left <= 0:
                return silent("it is shutting down, and does not finish")
            time.sleep(POLL)
            self._task.args["timeout"] = max(1, int(left))
            # Or a host that is shutting down is said to be mute.
            self._limit_of_answers = max(int(left), min(timeout, LAST_ANSWER))

    def _own_limit(self) -> int:
        return self._limit_of_answers

    def _answers_at_once(self) -> bool:
        keep_alive(self._connection)
        self._limit = int(self._task.args.get("connect_timeout", self.DEFAULT_CONNECT_TIMEOUT))
        return self._state() not in (None, LEAVING)

    def _state(self) -> str | None:
        """Return the state of systemd, if there is one, or None without an answer."""
        try:
            output = str(self._low_level_execute_command(STATE, sudoable=False)["stdout"])
        except AnsibleConnectionFailure:
            return None
        return "".join(output.split()[-1:])


class ActionModule(Reach):
    """As above, and the hosts that wait for their reboot learn of one that has gone."""

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        result = super().run(tmp, task_vars)
        breaker.tell(self._task, task_vars or {}, result)
        return result


def silent(why: str) -> Result:
    msg = f"the host does not answer: {' '.join(why.split())[:300]}"
    return {"failed": True, "lost_contact": True, "msg": msg}
