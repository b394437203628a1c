"""Begin a run: settle where it is noted down, and which hosts it is about."""

from __future__ import annotations

from pathlib import Path

from ansible.errors import AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import place, process
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables

ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "playbook": {"type": "str", "choices": ["rollout", "rollback", "validate"], "required": True},
}
DIRECTORY = "report_directory"


def strays(given: str, host: str, variables: Variables) -> dict[str, str]:
    """Return the hosts that have another directory for reports than this one, and which."""
    found: dict[str, object] = {}
    for name in variables["ansible_play_hosts_all"]:
        try:
            found[name] = variables["hostvars"][name].get(DIRECTORY)
        except AnsibleError as error:
            return {name: f"one that cannot be told: {error}"}
    own = found[host]
    if own not in (None, given):
        # What outranks the inventory is the same for every host.
        return {}
    return {name: str(told or "the default") for name, told in found.items() if told not in (own, given)}


class ActionModule(ActionBase):  # type: ignore[misc]
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        self._supports_check_mode = True
        result: Result = super().run(tmp, task_vars)
        asked = str(self._task.args.get("directory", ""))
        _, given = self.validate_argument_spec(argument_spec=ARGUMENTS)
        variables = task_vars or {}
        play = self._task.get_play()._uuid
        if place.settled(play) is not None:
            return {**result, "changed": False}
        others = strays(asked, variables["inventory_hostname"], variables)
        if others:
            (name, told), *_ = others.items()
            why = f"a run has one directory for reports: it would be {asked}, but {name} has {told}"
            return {**result, "failed": True, "msg": f"{why}; give {DIRECTORY} by -e"}
        found = place.settle(play, Path(given["directory"]), self._task.check_mode)
        planned = variables["ansible_play_hosts_all"]
        found.begin(process.this_run(), given["playbook"], process.controller(), planned, self._task.check_mode)
        return {**result, "changed": False}
