#!/usr/bin/python
"""Keep the record of a rollout on its host."""

from __future__ import annotations

DOCUMENTATION = """
module: record
short_description: Hold a host, and keep the record of a rollout on it
version_added: 1.0.0
description:
  - The record, C(/var/lib/kernel-thp/rollout.json), says what the host was like before, what was done, how far it got.
  - Two runs cannot work on a host at a time. A run of this controller that is dead gives way by itself, as soon as the
    step is over that it left under way.
author: kernel-thp project (@kernel-thp)
options:
  state:
    description:
      - V(held), keep other runs away; V(released), let them; V(checked), fail unless this run does.
      - V(begun), begin a rollout, or go on with one of the same release.
      - V(done), the rollout is finished.
      - V(undoable), fail unless what there is to undo can be undone; it changes nothing.
      - V(undoing), begin to go back, or go on with that; V(undone), check that the host is as it was.
      - V(drained), write down that a run takes the host out of service; V(undrained), that it is in service again.
        Without a record there is nothing to write.
    choices: [held, checked, begun, done, undoable, undoing, undone, drained, undrained, released]
    required: true
    type: str
  target:
    description:
      - What is rolled out, as returned by M(kernel_thp.fleet.repository). Needed with O(state=begun).
      - With O(state=undoable) it is the rollout that O(state=begun) would go on with that is asked for.
    type: dict
  back_to:
    description: Undo the last rollout, or all of them.
    choices: [previous, original]
    default: previous
    type: str
  unfinished_only:
    description: Undo the last rollout, and that only if it is not finished; O(back_to) is not asked then.
    type: bool
    default: false
  run:
    description: The run that works on the host. Filled in by itself.
    type: str
  controller:
    description: Where that run is. Filled in by itself.
    type: str
    default: ""
  instead_of:
    description: A run that is known to be gone. Filled in by itself, or given by hand for a controller lost for good.
    type: str
    default: ""
  lock_timeout:
    description: Seconds to wait for a step that an earlier run left under way.
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
  description: The record, as schemas/record.schema.json has it, or null.
  returned: always
  type: dict
reboots:
  description: Whether another kernel runs than the one that is gone back to.
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
    """Holding a host is no change of it: it leaves nothing behind."""
    run = parameters["run"]
    instead_of, timeout = parameters["instead_of"], parameters["lock_timeout"]
    other = holder.read() if check else holder.take(run, parameters["controller"], instead_of, timeout)
    if other is not None and other["run"] not in (run, instead_of):
        since = f"since {other['since']}"
        what = f"run {other['run']} of {other['controller']} works on this host {since}"
        return {"failed": True, "msg": f"{what}; wait for it, or see docs/fleet.md if it is gone", "held_by": other}
    return {"changed": False, "record": Store().read()}


def check_holder(_parameters: Parameters, _check: bool) -> Result:
    """That it is this run is looked at before every step."""
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
    found = records.begin(old, parameters["run"], parameters["target"], snapshot.before())
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
    """A host that is drained, or that has begun to go back, and then cannot, would be worse off than before."""
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
    # Those before it are finished, wherever a rollback by hand would lead to.
    return records.to_undo(old, records.PREVIOUS) if records.unfinished(old) else None


def undone(_parameters: Parameters, check: bool) -> Result:
    store = Store()
    if check:
        return {"changed": True, "record": store.read()}
    found = store.need(records.ROLLING_BACK)
    left = undo.remains(found)
    if left:
        raise Problem(f"the host is not as it was: {'; '.join(left)}", "mend it by hand, then run rollback.yml again")
    return {"changed": True, "record": store.write(found, phase=records.ROLLED_BACK)}


def drained(_parameters: Parameters, check: bool) -> Result:
    return _be_drained(True, check)


def undrained(_parameters: Parameters, check: bool) -> Result:
    return _be_drained(False, check)


def _be_drained(is_drained: bool, check: bool) -> Result:
    store = Store()
    old = store.read()
    if old is None or records.drained(old) == is_drained:
        return {"changed": False, "record": old}
    found = records.with_drained(old, is_drained)
    return {"changed": True, "record": found if check else store.write(found)}


def _brief(record: records.MaybeRecord) -> dict[str, Any]:
    """Return what of a record is worth a look in --diff."""
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
    "undrained": undrained,
}


def work(parameters: Parameters, check: bool) -> Result:
    return STATES[parameters["state"]](parameters, check)


if __name__ == "__main__":
    main(ARGUMENTS, work, changes=True, takes=("held", "released"), unheld=("drained", "undrained"))
