"""Run a task on the controller without contacting the host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from ansible.plugins.action import ActionBase
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables


class OnController(ActionBase):  # type: ignore[misc]
    """A task's arguments, and what it does with them. It changes no host, so it never reports a change.

    It runs in check mode as well: a plan is noted, evaluated and reported like a real run.
    """

    _requires_connection = False
    arguments: ClassVar[Mapping[str, Any]]
    required_if: ClassVar[Sequence[Any]] = ()

    def act(self, given: Variables, variables: Variables) -> Result:
        raise NotImplementedError

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> Result:
        self._supports_check_mode = True
        result: Result = super().run(tmp, task_vars)
        _, given = self.validate_argument_spec(argument_spec=self.arguments, required_if=self.required_if)
        return {**result, "changed": False, **self.act(given, task_vars or {})}
