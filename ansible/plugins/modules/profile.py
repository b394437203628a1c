#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Apply a tuned profile in addition to the active ones, and restore tuned and huge pages."""

from __future__ import annotations

DOCUMENTATION = """
module: profile
short_description: Apply and verify a tuned profile, or restore what was active before
version_added: 1.0.0
description:
  - Adds a profile to those that were active before the rollout, or that an operator chose since; it comes after them
    but before C(kernel_settings). tuned then verifies the values.
  - Restoring puts back the chosen profiles, whether tuned runs, and every setting of huge pages.
author: kernel-thp project (@kernel-thp)
options:
  state:
    description: Whether to apply the profile, or to restore what was recorded.
    choices: [applied, restored]
    required: true
    type: str
  name:
    description: The profile.
    default: thp-shrinker
    type: str
  timeout:
    description: Seconds within which tuned has to apply the values.
    default: 60
    type: int
  run:
    description: The run that works on the host. Filled in automatically.
    type: str
    required: true
attributes:
  check_mode: {support: full, description: Reports which profiles would be active.}
"""

EXAMPLES = """
- name: Apply the profile
  kernel_thp.fleet.profile:
    state: applied
    name: thp-shrinker
"""

RETURN = """
active:
  description: The active profiles, in order.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.kernel_thp.fleet.plugins.module_utils import hugepages, tuned
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.module import Parameters, Result, difference, main
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Store

ARGUMENTS = {
    "state": {"type": "str", "choices": ["applied", "restored"], "required": True},
    "name": {"type": "str", "default": "thp-shrinker"},
    "timeout": {"type": "int", "default": 60},
}


def apply(parameters: Parameters, check: bool) -> Result:
    store, state = Store(), tuned.read()
    record = store.read() if check else store.need(records.BOOTED)
    before = tuned.from_dict(record["before"]["tuned"]) if record and records.unfinished(record) else state
    # If the host was done and is rolled out to again, an operator may have chosen other profiles since.
    wanted = tuned.with_profile(tuned.chosen(state) or before.active, parameters["name"])
    result = {**difference(state.active, wanted), "active": wanted}
    if check:
        return result
    if not state.installed:
        raise Problem("tuned is not installed", "install tuned, or fix its installation")
    # tuned still uses the profile it once read; this rollout may have installed a newer version.
    brought = record["packages"]["added"] if record else []
    if not brought and state.active == wanted and state.enabled == "enabled" and tuned.verified() is None:
        return {**result, "changed": False}
    tuned.apply(wanted, parameters["timeout"])
    return {**result, "changed": True}


def restore(parameters: Parameters, check: bool) -> Result:
    store, state = Store(), tuned.read()
    record = store.read() if check else store.need(records.ROLLING_BACK)
    if record is None:
        return {"changed": False, "active": state.active}
    before = tuned.from_dict(record["before"]["tuned"])
    settings = record["before"]["hugepages"]
    now = {"tuned": state.active, **hugepages.different(settings)}
    then = {"tuned": before.active, **{name: settings[name] for name in hugepages.different(settings)}}
    result = {**difference(now, then), "active": before.active}
    if check:
        return result
    changed = False
    if not tuned.restored(before, state):
        tuned.restore(before, parameters["timeout"])
        changed = True
    if hugepages.different(settings):
        hugepages.restore(settings)
        changed = True
    return {**result, "changed": changed}


def work(parameters: Parameters, check: bool) -> Result:
    return apply(parameters, check) if parameters["state"] == "applied" else restore(parameters, check)


if __name__ == "__main__":
    main(ARGUMENTS, work, changes=True)
