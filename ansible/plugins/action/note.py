"""Keep the journal of a run on the controller: begin it, note what is done with a host, evaluate, report.

A rollout or rollback that has begun must not fail because the controller's disk is full. If the end of a host is
missing in the journal, the verdict counts it as lost.
"""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import beginning, process, report, run_dir, verdict
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.controller import OnController
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import RUN, Journal

ARGUMENTS = {
    "state": {"type": "str", "choices": ["begun", "noted", "evaluated", "reported"], "default": "noted"},
    "directory": {"type": "path"},
    "playbook": {"type": "str", "choices": ["rollout", "rollback", "validate", "survey"]},
    "max_failed": {"type": "str", "default": "0"},
    "max_lost": {"type": "str", "default": "1"},
    "max_unreachable": {"type": "str", "default": "5%"},
    "pause": {"type": "str", "default": "0"},
    "batches": {"type": "list", "elements": "int", "default": []},
    "step": {"type": "str", "default": ""},
    "release": {"type": "str", "default": ""},
    "machine": {"type": "str", "default": ""},
    "facts": {"type": "dict", "default": {}},
    "failed_task": {"type": "str", "default": ""},
    "result": {"type": "str", "default": ""},
    "why": {"type": "str", "default": ""},
    "run": {"type": "str", "default": ""},
}

SAME = (
    "this is the same machine as {other}, by machine id and hardware UUID; take one of the names out of the inventory, "
    "or give a clone a machine id of its own (systemd-machine-id-setup)"
)


def journal() -> Journal:
    """Return the journal of the play, which has begun, unless ansible-playbook is gone."""
    process.end_if_orphaned()
    found = run_dir.settled()
    if found is None:
        raise AnsibleActionFail("the run has not begun: its first task, with `state: begun`, was left out")
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
    required_if = (("state", "begun", ("directory", "playbook")), ("state", "reported", ("directory",)))

    def act(self, given: Variables, variables: Variables) -> Result:
        if given["state"] == "begun":
            return beginning.begin(self._task, given, variables)
        if given["state"] == "reported":
            return self._report(Path(given["directory"]).expanduser(), given["run"])
        if given["state"] == "evaluated":
            return verdict.evaluate(journal(), self._task.check_mode, variables)
        return self._note(journal(), variables["inventory_hostname"], given)

    def _note(self, found: Journal, host: str, given: Variables) -> Result:
        try:
            note(found, host, given)
            other = found.same_machine(host, given["machine"]) if given["machine"] else host
        except (OSError, ValueError) as error:
            message = f"{host} cannot be noted in {found.folder}: {error}"
            if given["release"] or given["machine"]:
                # The kernel comes next; this host is still unchanged.
                raise AnsibleActionFail(message) from error
            Display().warning(message)
            other = host
        if other != host:
            return {"failed": True, "msg": SAME.format(other=other)}
        report.refresh(found)
        about = found.release(given["release"])
        if given["release"] and given["release"] != about:
            # A release was published meanwhile, or repositories differ; a run rolls out one release.
            why = f"this host would get {given['release']}, but the run rolls out {about}; set thp_preflight_release"
            return {"failed": True, "msg": why, "release": about}
        return {"release": about}

    def _report(self, folder: Path, name: str) -> Result:
        """Write the reports of runs that were killed, and again that of the run with this name."""
        if self._task.check_mode:
            return {"aborted": []}
        aborted = report.finish_dead(folder)
        chosen = folder / name
        if name and not (chosen / RUN).exists():
            return {"failed": True, "msg": f"there is no run in {chosen}", "aborted": aborted}
        if name:
            report.write(Journal(chosen.resolve()))
        return {"aborted": aborted}
