"""Wait for a job on a host, and delete its files; losing the host fails, and so does its reboot."""

from __future__ import annotations

import shlex

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
# Ansible's wrapper gives up without a word if the host is too busy to start the job within 2.5 s.
DIED = (
    "the job ended without a result: it was killed, or Ansible could not start it in time on a busy host; "
    "see its load, and its log for processes that were OOM-killed, and run again"
)


class Status(Contact, AsyncStatus):  # type: ignore[misc]
    """As Ansible's own, but losing the host fails."""


class ActionModule(Status):
    _silence = 0
    # How many polls in a row found neither a result nor a process.
    _missed = 0

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        _, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        # Ansible's own action takes only this.
        self._task.args = {"jid": given["jid"]}
        self._silence = given["silence"]
        limits = job.Limits(given["timeout"], self._silence)
        found = job.wait(lambda: self._poll(given["jid"], given["boot_id"], task_vars), limits)
        if found.get("finished"):
            self._task.args["mode"] = "cleanup"
            super().run(None, task_vars)
        return found

    def _own_limit(self) -> int:
        return self._silence

    def _poll(self, jid: str, boot_id: str, task_vars: Variables | None) -> Result:
        found = super().run(None, task_vars)
        if found.get("finished") and found.get("cmd") and not (found.get("data") or found.get("stderr")):
            # The wrapper is there, and what it ran is gone without a word.
            return {**found, "msg": DIED}
        if found.get("lost_contact") or (found.get("finished") and found.get("msg") != FILE_GONE):
            return found
        try:
            rebooted = self.boot_id() != boot_id
            has_process = self._has_process(jid)
        except AnsibleConnectionFailure as error:
            return contact.lost(str(error))
        # The job's files, if they are there, would say forever that it is running.
        if rebooted:
            return {**found, "failed": True, "finished": True, "msg": REBOOTED}
        self._missed = 0 if has_process else self._missed + 1
        if found.get("finished"):
            # On a busy host, the wrapper may not have written its file yet.
            return {"finished": False} if has_process else found
        # The job may end between the two looks at it; then the next one finds its result.
        return {**found, "failed": True, "finished": True, "msg": DIED} if self._missed > 1 else found

    def _has_process(self, jid: str) -> bool:
        """Say whether a process of the job lives: the first part of its id is an argument of Ansible's wrapper.

        A host that cannot even look has not said that there is none.
        """
        own = jid.rpartition(".")[0]
        # In brackets, so that the pattern does not find the shell that looks for it.
        pattern = shlex.quote(f"[{own[:1]}]{own[1:]}")
        # A process that hangs in the kernel may keep its arguments from being read. 2: some processes have ended.
        look = f"timeout -s KILL 10 grep -qs {pattern} /proc/[0-9]*/cmdline; case $? in 1|2) echo gone;; esac"
        return "gone" not in str(self._low_level_execute_command(look)["stdout"]).split()
