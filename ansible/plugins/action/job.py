"""Wait for a job on a host, and delete its files; losing the host fails, and so does its reboot."""

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
# What Ansible says of a job without a file. A reset takes away what the host has not yet written to its disk.
FILE_GONE = "could not find job"


class Status(Contact, AsyncStatus):  # type: ignore[misc]
    """As Ansible's own, but losing the host fails."""


class ActionModule(Status):
    _silence = 0

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        _, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        # Ansible's own action takes only this.
        self._task.args = {"jid": given["jid"]}
        self._silence = given["silence"]
        limits = job.Limits(given["timeout"], self._silence)
        found = job.wait(lambda: self._poll(given["boot_id"], task_vars), limits)
        if found.get("finished"):
            self._task.args["mode"] = "cleanup"
            super().run(None, task_vars)
        return found

    def _own_limit(self) -> int:
        return self._silence

    def _poll(self, boot_id: str, task_vars: Variables | None) -> Result:
        found = super().run(None, task_vars)
        if found.get("lost_contact") or (found.get("finished") and found.get("msg") != FILE_GONE):
            return found
        try:
            rebooted = self.boot_id() != boot_id
        except AnsibleConnectionFailure as error:
            return contact.lost(str(error))
        # The job's files, if they are there, would say forever that it is running.
        return {**found, "failed": True, "finished": True, "msg": REBOOTED} if rebooted else found
