#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Watch a host under its load for some time."""

from __future__ import annotations

DOCUMENTATION = """
module: soak
short_description: Watch memory pressure, OOM kills and huge page faults for some time
version_added: 1.0.0
description:
  - Fails as soon as the health command fails, too many processes were killed, or the kernel complains about what the
    old one did not. At the end it also fails if waiting for memory, or huge page allocation failures, exceed those
    before the rollout by more than a margin. Changes nothing.
  - What was before is in the record of the rollout.
author: kernel-thp project (@kernel-thp)
options:
  seconds:
    description: How long. With 0 the host is checked once.
    default: 300
    type: int
  interval:
    description: Seconds between two checks.
    default: 30
    type: int
  allowed:
    description: Regular expressions of lines in the kernel's log that look like a defect but are known to be harmless.
    default: []
    type: list
    elements: str
  health_command:
    description: A program and its arguments, run at each check. An exit code other than 0 is a failure.
    default: []
    type: list
    elements: str
  health_timeout:
    description: Seconds in which that program has to end.
    default: 60
    type: int
  pressure:
    description: >-
      Percent of the time that processes may wait for memory, in addition to before. Not checked if negative, or if the
      host has no such figures now and had none before.
    default: 10.0
    type: float
  oom_kills:
    description: >-
      Processes that may be killed for lack of memory, in addition to as many as the time before lets expect. Not
      checked if negative.
    default: 0
    type: int
  fallback:
    description: Percent of huge page faults that may get small pages, in addition to before. Not checked if negative.
    default: 20.0
    type: float
  faults:
    description: Fewer faults than this are not checked.
    default: 1000
    type: int
attributes:
  check_mode: {support: full, description: It changes nothing in either mode.}
"""

EXAMPLES = """
- name: Soak for ten minutes
  kernel_thp.fleet.soak:
    seconds: 600
"""

RETURN = """
figures:
  description: Seconds, share of time in which memory was waited for, OOM kills, huge page faults, share that failed.
  returned: always
  type: dict
before:
  description: >-
    The same since the boot of the kernel that ran before, with the pressure of its last five minutes if that was
    higher.
  returned: always
  type: dict
counters:
  description: Memory, pressure and counters of huge pages at the end.
  returned: always
  type: dict
boot_id:
  description: The boot in which it soaked.
  returned: always
  type: str
"""

import time
from collections.abc import Sequence
from dataclasses import asdict

from ansible_collections.kernel_thp.fleet.plugins.module_utils import (
    command,
    counters,
    kernel_log,
    snapshot,
    soaking,
)
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.module import Parameters, Result, main
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

ARGUMENTS = {
    "seconds": {"type": "int", "default": 300},
    "interval": {"type": "int", "default": 30},
    "allowed": {"type": "list", "elements": "str", "default": []},
    "health_command": {"type": "list", "elements": "str", "default": []},
    "health_timeout": {"type": "int", "default": 60},
    "pressure": {"type": "float", "default": 10.0},
    "oom_kills": {"type": "int", "default": 0},
    "fallback": {"type": "float", "default": 20.0},
    "faults": {"type": "int", "default": 1000},
}


def limits(parameters: Parameters) -> soaking.Limits:
    chosen = {
        name: parameters[name] if parameters[name] >= 0 else None for name in ("pressure", "oom_kills", "fallback")
    }
    return soaking.Limits(faults=parameters["faults"], seconds=parameters["seconds"], **chosen)


def unhealthy(parameters: Parameters) -> list[str]:
    """Run the health command. Its output stays on the host: it may contain secrets."""
    words = parameters["health_command"]
    if not words:
        return []
    try:
        done = command.run(words, parameters["health_timeout"])
    except Problem:
        return [f"the health command did not end within {parameters['health_timeout']} s"]
    if not done.started:
        return [f"the health command cannot be run: {done.err}"]
    return [f"the health command ended with {done.code}"] if done.code != 0 else []


def complaints(parameters: Parameters, known: Sequence[str]) -> list[str]:
    """Read the log of the soak; a check of the health command alone is not about the kernel."""
    if not parameters["seconds"]:
        return []
    found = kernel_log.complaints([*parameters["allowed"], *kernel_log.allowed(known)])
    return [f"the kernel complained: {line}" for line in found[:5]]


def work(parameters: Parameters, _check: bool) -> Result:
    recorded = records.before(records.Store().read())
    began, boot_id = counters.read(), snapshot.boot_id()
    before = soaking.past(counters.from_dict(recorded["counters"]) if recorded else began)
    end = time.monotonic() + parameters["seconds"]
    while True:
        over = time.monotonic() >= end
        found = soaking.figures(began, counters.read())
        problems = unhealthy(parameters) + complaints(parameters, recorded.get("complaints", ()))
        problems += soaking.evaluate(before, found, limits(parameters), over)
        if problems or over:
            break
        time.sleep(max(0.0, min(parameters["interval"], end - time.monotonic())))
    result = {
        "figures": asdict(found),
        "before": asdict(before),
        "counters": counters.read().as_dict(),
        "boot_id": boot_id,
        "changed": False,
    }
    if problems:
        when = f"after {found.seconds:.0f} s of soaking: " if parameters["seconds"] else ""
        return {**result, "failed": True, "msg": when + " / ".join(problems)}
    return result


if __name__ == "__main__":
    main(ARGUMENTS, work)
