"""Do a task on the controller: the host it is about is not asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ansible.plugins.action import ActionBase
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables


class OnController(ActionBase):  # type: ignore[misc]
    """What a task says of itself, and what it does with what it is given; no host changes by it, so it never says so.

    It is done in check mode as well: a plan is noted down, judged and reported like what was really done.
    """

    _requires_connection = False
    arguments: ClassVar[Mapping[str, Any]]

    def act(self, given: Variables, variables: Variables) -> Result:
        raise NotImplementedError

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        self._supports_check_mode = True
        result: Result = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(argument_spec=self.arguments)
        return {**result, "changed": False, **self.act(given, task_vars or {})}
