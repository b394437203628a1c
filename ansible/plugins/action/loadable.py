"""Load roles as including them would, and report what is wrong."""

from __future__ import annotations

from ansible.errors import AnsibleError
from ansible.playbook.role import Role
from ansible.playbook.role.include import RoleInclude
from ansible.utils.display import Display
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.controller import OnController

ARGUMENTS = {"roles": {"type": "list", "elements": "str", "required": True}}


class ActionModule(OnController):
    arguments = ARGUMENTS

    def act(self, given: Variables, variables: Variables) -> Result:
        for name in filter(None, given["roles"]):
            try:
                self._load(name)
            except AnsibleError as error:
                # This also shows file and line.
                Display().error(error)
                return {"failed": True, "msg": f"the role {name} cannot be used: {error}"}
        return {}

    def _load(self, name: str) -> None:
        """Load it into the play, of which this worker has a copy."""
        play = self._task.play
        found = RoleInclude.load(name, play=play, loader=self._loader, collection_list=self._task.collections)
        Role.load(found, play, from_include=True)
