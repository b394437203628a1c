#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep the record of a rollout on its host."""

from __future__ import annotations

DOCUMENTATION = """
module: record
short_description: Hold a host, and keep the record of a rollout on it
version_added: 1.0.0
description:
  - The record, C(/var/lib/kernel-thp/rollout.json), says what the host was like before, what was done, how far it got.
  - Only one run can work on a host at a time. A dead run of this controller is replaced automatically, once the step
    that it left running has ended.
author: kernel-thp project (@kernel-thp)
options:
  state:
    description:
      - V(held), keep other runs away; V(released), let them in; V(checked), fail unless this run holds the host.
      - V(begun), begin a rollout, or continue one of the same release.
      - V(done), the rollout is finished.
      - V(undoable), fail unless the rollout can be undone; it changes nothing.
      - V(undoing), begin to roll back, or continue a rollback; V(undone), check that the host is as it was.
      - V(drained), record that a run takes the host out of service; V(undrained), that it is in service again. Without
        a record nothing is written.
    choices: [held, checked, begun, done, undoable, undoing, undone, drained, undrained, released]
    required: true
    type: str
  target:
    description:
      - What to roll out, as returned by M(kernel_thp.fleet.repository). Needed with O(state=begun).
      - With O(state=undoable), the rollout to check is the one that O(state=begun) would continue.
    type: dict
  back_to:
    description: Undo the last rollout, or all of them.
    choices: [previous, original]
    default: previous
    type: str
  unfinished_only:
    description: Undo the last rollout only, and only if it is unfinished; O(back_to) is ignored then.
    type: bool
    default: false
  run:
    description: The run that works on the host. Filled in automatically.
    type: str
    required: true
  controller:
    description: The controller of that run. Filled in automatically.
    type: str
    default: ""
  instead_of:
    description: A run that is known to be gone. Filled in automatically, or given by hand if its controller is lost.
    type: str
    default: ""
  lock_timeout:
    description: Seconds to wait for a step that an earlier run left running.
    type: int
    default: 300
attributes:
  check_mode: {support: full, description: Returns what it would write.}
"""

EXAMPLES = """
- name: Keep other runs away
  kernel_thp.fleet.record:
    state: held
"""

RETURN = """
record:
  description: The record, in the format of schemas/record.schema.json, or null.
  returned: always
  type: dict
reboots:
  description: Whether the rollback has to reboot, because another kernel than the old one runs.
  returned: state is undoable
  type: bool
held_by:
  description: The run that holds the host instead.
  returned: the host is held by another run
  type: dict
"""

from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.module_utils import counters, holder, snapshot, undo
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.module import Parameters, Result, difference, main
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Store

ARGUMENTS = {
    "state": {
        "type": "str",
        "choices": [
            *("held", "checked", "begun", "done", "undoable", "undoing", "undone"),
            *("drained", "undrained", "released"),
        ],
        "required": True,
    },
    "target": {"type": "dict"},
    "back_to": {"type": "str", "choices": [records.PREVIOUS, records.ORIGINAL], "default": records.PREVIOUS},
    "unfinished_only": {"type": "bool", "default": False},
    "controller": {"type": "str", "default": ""},
    "instead_of": {"type": "str", "default": ""},
    "lock_timeout": {"type": "int", "default": 300},
}


def hold(parameters: Parameters, check: bool) -> Result:
    """Hold the host. This does not count as a change: it leaves nothing behind."""
    run = parameters["run"]
    instead_of, timeout = parameters["instead_of"], parameters["lock_timeout"]
    other = holder.read() if check else holder.take(run, parameters["controller"], instead_of, timeout)
    if other is not None and other["run"] not in (run, instead_of):
        since = f"since {other['since']}"
        what = f"run {other['run']} of {other['controller']} works on this host {since}"
        return {
            "failed": True,
            "msg": f"{what}; wait for it, or see docs/fleet.md of the collection if it is gone",
            "held_by": other,
        }
    return {"changed": False, "record": Store().read()}


def check_holder(_parameters: Parameters, _check: bool) -> Result:
    """Do nothing: every step checks first that this run holds the host."""
    return {"changed": False}


def release(parameters: Parameters, check: bool) -> Result:
    if not check:
        holder.release(parameters["run"])
    return {"changed": False}


def begin(parameters: Parameters, check: bool) -> Result:
    if parameters["target"] is None:
        raise Problem("target is missing", "give what kernel_thp.fleet.repository returned")
    store = Store()
    old = store.read()
    begun = records.begin(old, parameters["run"], parameters["target"], snapshot.before())
    found = {**begun, "machine": snapshot.identity()}
    if not check:
        found = store.write(found)
    return {**difference(_brief(old), _brief(found)), "changed": True, "record": found}


def done(_parameters: Parameters, check: bool) -> Result:
    store = Store()
    if check:
        return {"changed": True, "record": store.read()}
    found = store.need(records.BOOTED, records.DONE)
    after = counters.read().as_dict()
    return {"changed": True, "record": store.write(found, phase=records.DONE, after=after)}


def undoable(parameters: Parameters, _check: bool) -> Result:
    """Check before the drain: a host that cannot finish its rollback would be worse off than before."""
    old, target = Store().read(), parameters["target"]
    found = records.taken_up(old, target) if target else _to_undo(old, parameters)
    hindered = undo.hindrances(found) if found is not None else []
    if hindered:
        return {"failed": True, "msg": " / ".join(hindered)}
    reboots = found is not None and snapshot.uname() != found["before"]["uname"]
    return {"changed": False, "record": found, "reboots": reboots}


def undoing(parameters: Parameters, check: bool) -> Result:
    store = Store()
    old = store.read()
    found = _to_undo(old, parameters)
    if found is None:
        return {"changed": False, "record": None}
    if not check:
        found = store.write(found, run=parameters["run"], phase=records.ROLLING_BACK)
    then = {**_brief(found), "phase": records.ROLLED_BACK}
    return {**difference(_brief(old), then), "changed": True, "record": found}


def _to_undo(old: records.MaybeRecord, parameters: Parameters) -> records.MaybeRecord:
    if not parameters["unfinished_only"]:
        return records.to_undo(old, parameters["back_to"])
    # The rollouts before it are finished; only a rollback by an operator may undo those.
    return records.to_undo(old, records.PREVIOUS) if records.unfinished(old) else None


def undone(_parameters: Parameters, check: bool) -> Result:
    store = Store()
    if check:
        return {"changed": True, "record": store.read()}
    found = store.need(records.ROLLING_BACK)
    left = undo.remains(found)
    if left:
        raise Problem(f"the host is not as it was: {'; '.join(left)}", "fix it by hand, then run rollback.yml again")
    return {"changed": True, "record": store.write(found, phase=records.ROLLED_BACK)}


def drained(parameters: Parameters, check: bool) -> Result:
    """Note that the host is out of service, or in service again."""
    is_drained = parameters["state"] == "drained"
    store = Store()
    old = store.read()
    if old is None or records.drained(old) == is_drained:
        return {"changed": False, "record": old}
    found = records.with_drained(old, is_drained)
    return {"changed": True, "record": found if check else store.write(found)}


def _brief(record: records.MaybeRecord) -> dict[str, Any]:
    """Return the part of a record that --diff shows."""
    if record is None:
        return {}
    return {"phase": record["phase"], "release": record["target"]["release"], "before": record["before"]["uname"]}


STATES = {
    "held": hold,
    "checked": check_holder,
    "released": release,
    "begun": begin,
    "done": done,
    "undoable": undoable,
    "undoing": undoing,
    "undone": undone,
    "drained": drained,
    "undrained": drained,
}


def work(parameters: Parameters, check: bool) -> Result:
    return STATES[parameters["state"]](parameters, check)


if __name__ == "__main__":
    main(ARGUMENTS, work, changes=True, takes=("held", "released"), unheld=("drained", "undrained"))
