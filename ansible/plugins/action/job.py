"""Wait for a job that runs on a host, and remove what it left; losing the host fails, and so does its reboot."""

from __future__ import annotations

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action.async_status import ActionModule as AsyncStatus
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import contact, job
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Contact, Result, Variables

ARGUMENTS = {
    "jid": {"type": "str", "required": True},
    "boot_id": {"type": "str", "required": True},
    "timeout": {"type": "int", "required": True},
    "silence": {"type": "int", "default": 180},
}
REBOOTED = "the host has rebooted meanwhile"


class Status(Contact, AsyncStatus):  # type: ignore[misc]
    """As Ansible's own, but losing the host fails."""


class ActionModule(Status):
    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        _, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        # What Ansible's own knows.
        self._task.args = {"jid": given["jid"]}
        limits = job.Limits(given["timeout"], given["silence"])
        found = job.wait(lambda: self._ask(given["boot_id"], task_vars), limits)
        if found.get("finished"):
            self._task.args["mode"] = "cleanup"
            super().run(None, task_vars)
        return found

    def _ask(self, boot_id: str, task_vars: Variables | None) -> Result:
        found = super().run(None, task_vars)
        if found.get("lost_contact") or found.get("finished"):
            return found
        try:
            rebooted = self.boot_id() != boot_id
        except AnsibleConnectionFailure as error:
            return contact.lost(str(error))
        # What is left there says that the job is under way, and always would.
        return {**found, "failed": True, "finished": True, "msg": REBOOTED} if rebooted else found
