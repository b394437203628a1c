"""Write down, on the controller, what a run does with a host.

A host that is under way has to get where it goes, above all back, also when the controller's disk is full. If its end
is not in the journal then, the verdict counts it as lost.
"""

from __future__ import annotations

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import place, process, report
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.controller import OnController
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal

ARGUMENTS = {
    "step": {"type": "str", "default": ""},
    "release": {"type": "str", "default": ""},
    "facts": {"type": "dict", "default": {}},
    "failed_task": {"type": "str", "default": ""},
    "result": {"type": "str", "default": ""},
    "why": {"type": "str", "default": ""},
}


def journal(play: str) -> Journal:
    """Return that of a play which has begun. What is not known to a run any more is not noted either."""
    process.end_if_orphaned()
    found = place.settled(play)
    if found is None:
        raise AnsibleActionFail("the run has not begun: its first task, kernel_thp.fleet.begin, was left out")
    return found


def note(found: Journal, host: str, given: Variables) -> None:
    if given["step"]:
        found.step(host, given["step"])
    if given["facts"]:
        found.add(host, given["facts"])
    if given["failed_task"]:
        found.fail(host, given["failed_task"], given["why"])
    if given["result"]:
        found.end(host, given["result"], "" if given["failed_task"] else given["why"])


class ActionModule(OnController):
    arguments = ARGUMENTS

    def act(self, given: Variables, variables: Variables) -> Result:
        host = variables["inventory_hostname"]
        found = journal(self._task.get_play()._uuid)
        try:
            note(found, host, given)
        except (OSError, ValueError) as error:
            told = f"{host} cannot be noted in {found.folder}: {error}"
            if given["release"]:
                # What comes next is the kernel, and this host can still be left as it is.
                raise AnsibleActionFail(told) from error
            Display().warning(told)
        report.refresh(found)
        about = found.release(given["release"])
        if given["release"] and given["release"] != about:
            # A release was published meanwhile, or repositories differ: one run is about one kernel.
            why = f"this host would get {given['release']}, the run is about {about}; set preflight_release"
            return {"failed": True, "msg": why, "release": about}
        return {"release": about}
