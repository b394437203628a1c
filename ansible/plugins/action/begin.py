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
IN_PART = "--tags or --skip-tags leave out the tasks of this run, and nothing done would look like all well; do without"


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
        if not self._others_too(variables):
            # A play that was imported with tags can be left out as a whole.
            return {**result, "skipped": True} if self._tags() else {**result, "failed": True, "msg": IN_PART}
        others = strays(asked, variables["inventory_hostname"], variables)
        if others:
            (name, told), *_ = others.items()
            why = f"a run has one directory for reports: it would be {asked}, but {name} has {told}"
            return {**result, "failed": True, "msg": f"{why}; give {DIRECTORY} by -e"}
        found = place.settle(play, Path(given["directory"]), self._task.check_mode)
        planned = variables["ansible_play_hosts_all"]
        found.begin(process.this_run(), given["playbook"], process.controller(), planned, self._task.check_mode)
        return {**result, "changed": False}

    def _tags(self) -> list[str]:
        """Return the tags of the play. This task has one of its own, so that it is done in any case."""
        return [tag for tag in self._task.tags if tag != "always"]

    def _others_too(self, variables: Variables) -> bool:
        """Say whether Ansible does the other tasks of the play as well: they have no tags of their own."""
        play, other = self._task.get_play(), self._task.copy()
        other.tags = self._tags()
        return bool(other.evaluate_tags(play.only_tags, play.skip_tags, variables))
