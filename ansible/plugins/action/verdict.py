"""Count the hosts that did not get where they should, and end the run if there are too many.

It counts what the journal says and not what Ansible remembers: a host that was rolled back has not failed for Ansible,
and one that vanished is not in the batch any more. A host of which the journal says nothing has failed as well.
"""

from __future__ import annotations

from ansible_collections.kernel_thp.fleet.plugins.action.note import journal
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import report, summary
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.controller import OnController

ARGUMENTS = {"max_failed": {"type": "int", "default": 0}}

# Of the play, and of these who was not dropped, in all and in the batch.
HOSTS = ("ansible_play_hosts_all", "ansible_play_hosts", "ansible_play_batch")
UNNOTED = "Ansible dropped it before anything was done to it; see what it said, and look at its variables"


class ActionModule(OnController):
    arguments = ARGUMENTS

    def act(self, given: Variables, variables: Variables) -> Result:
        found = journal(self._task.get_play()._uuid)
        everybody, left, batch = (variables[name] for name in HOSTS)
        reached = summary.reached(everybody, left, batch)
        for host in reached:
            if found.note(host) is None:
                found.fail(host, "", UNNOTED)
                found.end(host, "failed")
        notes = list(found.notes())
        fallen = summary.casualties(notes)
        through = len(reached) == len(everybody)
        too_many = len(fallen) > given["max_failed"]
        complaint = summary.complaint(fallen, given["max_failed"]) if fallen else None
        if too_many and not through:
            report.finish(found, "stopped", complaint)
        elif through:
            report.finish(found, "finished", complaint)
        else:
            report.write(found)
        # Whoever stays behind within the limit does not stop the run, but no run that left hosts behind ends well.
        failed = too_many or (through and bool(fallen))
        told = complaint or f"{len(notes)} hosts, none failed"
        where = "" if self._task.check_mode else f"; report: {found.folder}"
        return {"failed": failed, "msg": told + where, "report": str(found.folder)}
