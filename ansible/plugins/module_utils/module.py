"""Common to all modules: arguments, errors as one line, and the check that the run holds the host."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.kernel_thp.fleet.plugins.module_utils import holder
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

Parameters = dict[str, Any]
Result = dict[str, Any]
# Called with the parameters, and whether this is check mode.
Work = Callable[[Parameters, bool], Result]
RUN = {"run": {"type": "str", "required": True}}


def main(
    arguments: dict[str, Any],
    work: Work,
    changes: bool = False,
    takes: tuple[str, ...] = (),
    unheld: tuple[str, ...] = (),
) -> None:
    """Run a module. If it changes the host, its parameter `run` names the run, which must hold the host all the time.

    In the states `takes` the module itself holds or releases the host. In the states `unheld` nobody has to hold it.
    """
    module = AnsibleModule(argument_spec={**arguments, **(RUN if changes else {})}, supports_check_mode=True)
    state = module.params.get("state")
    try:
        if changes and os.geteuid() != 0:
            raise Problem("this needs root", "use become")
        steps = changes and not module.check_mode and state not in takes
        with _step(module.params, state in unheld) if steps else nullcontext():
            result = work(module.params, module.check_mode)
    except Problem as problem:
        module.fail_json(msg=str(problem))
    else:
        module.exit_json(**result)


def _step(parameters: Parameters, or_nobody: bool) -> AbstractContextManager[None]:
    return holder.step(parameters["run"], parameters.get("lock_timeout", holder.PATIENCE), or_nobody=or_nobody)


def difference(before: object, after: object) -> dict[str, Any]:
    """Return what --diff shows."""
    return {"diff": {"before": _lines(before), "after": _lines(after)}, "changed": before != after}


def _lines(value: object) -> str:
    if isinstance(value, dict):
        return "".join(f"{key}: {item}\n" for key, item in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return "".join(f"{item}\n" for item in value)
    return f"{value}\n" if value else ""
