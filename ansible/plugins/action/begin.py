"""Begin a run: create its directory, and note its hosts."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import budget, process, run_dir
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.controller import OnController

ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "playbook": {"type": "str", "choices": ["rollout", "rollback", "validate"], "required": True},
    "max_failed": {"type": "str", "default": "0"},
    "max_lost": {"type": "str", "default": "1"},
    "max_unreachable": {"type": "str", "default": "5%"},
    "pause": {"type": "str", "default": "0"},
    "batches": {"type": "list", "elements": "int", "default": []},
}
BUDGETS = ("max_failed", "max_lost", "max_unreachable")
DIRECTORY = "thp_report_directory"
IN_PART = "--tags or --skip-tags leave out tasks of this run, which would then look like a success; run without them"


def elsewhere(given: str, host: str, variables: Variables) -> str:
    """Return which host of the play has another directory for reports, and which one; or nothing."""
    found: dict[str, object] = {}
    for name in variables["ansible_play_hosts_all"]:
        try:
            found[name] = variables["hostvars"][name].get(DIRECTORY)
        except AnsibleError as error:
            return f"{name} has one that cannot be templated: {error}"
    own = found[host]
    # Extra variables override the inventory and are the same for every host.
    others = [name for name, directory in found.items() if own in (None, given) and directory not in (own, given)]
    return f"{others[0]} has {found[others[0]] or 'the default'}" if others else ""


class ActionModule(OnController):
    arguments = ARGUMENTS

    def act(self, given: Variables, variables: Variables) -> Result:
        wanted = str(self._task.args.get("directory", ""))
        play = self._task.get_play()
        if run_dir.settled(play._uuid) is not None:
            return {}
        if not self._others_too(variables):
            if play.tags:
                # The whole play was imported with tags that are not selected.
                return {"skipped": True}
            raise AnsibleActionFail(IN_PART)
        other = elsewhere(wanted, variables["inventory_hostname"], variables)
        if other:
            why = f"a run has one directory for reports: it would be {wanted}, but {other}"
            raise AnsibleActionFail(f"{why}; give {DIRECTORY} by -e")
        planned = variables["ansible_play_hosts_all"]
        settings = {name: budget.allowed(given[name], len(planned), f"thp_fleet_{name}") for name in BUDGETS}
        settings["pause"] = budget.seconds(given["pause"], "thp_fleet_pause")
        found = run_dir.settle(play._uuid, Path(given["directory"]), self._task.check_mode)
        run, controller = process.this_run(), process.controller()
        found.begin(
            run, given["playbook"], controller, planned, self._task.check_mode, batches=given["batches"], **settings
        )
        return {}

    def _others_too(self, variables: Variables) -> bool:
        """Say whether Ansible runs the other tasks of the play as well. It always runs this one, which is tagged."""
        play, other = self._task.get_play(), self._task.copy()
        other.tags = list(play.tags)
        return bool(other.evaluate_tags(play.only_tags, play.skip_tags, variables))
