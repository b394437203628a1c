"""Begin a run: settle where it is noted down, and which hosts it is about."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import place, process
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.controller import OnController

ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "playbook": {"type": "str", "choices": ["rollout", "rollback", "validate"], "required": True},
}
DIRECTORY = "report_directory"
IN_PART = "--tags or --skip-tags leave out the tasks of this run, and nothing done would look like all well; do without"


def elsewhere(given: str, host: str, variables: Variables) -> str:
    """Return which host of the play has another directory for reports than this one, and which; or nothing."""
    found: dict[str, object] = {}
    for name in variables["ansible_play_hosts_all"]:
        try:
            found[name] = variables["hostvars"][name].get(DIRECTORY)
        except AnsibleError as error:
            return f"{name} has one that cannot be told: {error}"
    own = found[host]
    # What outranks the inventory is the same for every host.
    others = [name for name, told in found.items() if own in (None, given) and told not in (own, given)]
    return f"{others[0]} has {found[others[0]] or 'the default'}" if others else ""


class ActionModule(OnController):
    arguments = ARGUMENTS

    def act(self, given: Variables, variables: Variables) -> Result:
        asked = str(self._task.args.get("directory", ""))
        play = self._task.get_play()
        if place.settled(play._uuid) is not None:
            return {}
        if not self._others_too(variables):
            if play.tags:
                # It was imported with tags, and is left out as a whole.
                return {"skipped": True}
            raise AnsibleActionFail(IN_PART)
        other = elsewhere(asked, variables["inventory_hostname"], variables)
        if other:
            why = f"a run has one directory for reports: it would be {asked}, but {other}"
            raise AnsibleActionFail(f"{why}; give {DIRECTORY} by -e")
        found = place.settle(play._uuid, Path(given["directory"]), self._task.check_mode)
        planned = variables["ansible_play_hosts_all"]
        found.begin(process.this_run(), given["playbook"], process.controller(), planned, self._task.check_mode)
        return {}

    def _others_too(self, variables: Variables) -> bool:
        """Say whether Ansible does the other tasks of the play as well. This one it does in any case, by a tag."""
        play, other = self._task.get_play(), self._task.copy()
        other.tags = list(play.tags)
        return bool(other.evaluate_tags(play.only_tags, play.skip_tags, variables))
