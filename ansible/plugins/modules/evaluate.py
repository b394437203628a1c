#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Evaluate the running kernel without changing anything."""

from __future__ import annotations

DOCUMENTATION = """
module: evaluate
short_description: Evaluate the running kernel and its setup
version_added: 1.0.0
description:
  - Runs C(thp-validate), with the selftests if wanted, searches the kernel's log for defects, and checks which kernel
    runs and is the default. Returns the problems; it fails only if it cannot read the kernel's log or the record.
  - It also compares what the host offers, failed units, mounts, default routes and listening sockets, with the record
    of the rollout, and waits for what starts late.
  - What the old kernel complained about as well, and how it was tainted as well, according to the record of the
    rollout, is no problem, unless the kernel crashed or damaged its memory.
author: kernel-thp project (@kernel-thp)
options:
  uname:
    description: The C(uname -r) that has to run. Empty for any.
    default: ""
    type: str
  is_default:
    description: Whether the running kernel has to be the boot loader's default, kept against later ones.
    default: false
    type: bool
  selftests:
    description: Whether to run the selftests of the kernel. They change settings while they run.
    default: false
    type: bool
  timeout:
    description: Seconds in which C(thp-validate) has to end.
    default: 3600
    type: int
  allowed:
    description: Regular expressions of lines in the kernel's log that look like a defect but are known to be harmless.
    default: []
    type: list
    elements: str
  services:
    description: >-
      Whether everything that the host offered before the rollout has to be there again (V(all)), only what it still
      offered when it was out of service (V(drained)), or nothing (V(ignored)).
    choices: [all, drained, ignored]
    default: ignored
    type: str
  services_timeout:
    description: Seconds that services may take to start.
    default: 300
    type: int
  services_allowed:
    description: >-
      Regular expressions of what may be lost, such as C(mount /srv/.*), C(socket tcp port 8080), C(unit a.service),
      C(route default .*).
    default: []
    type: list
    elements: str
attributes:
  check_mode: {support: full, description: "It changes nothing in either mode, but runs no selftests in check mode."}
"""

EXAMPLES = """
- name: Evaluate the host
  kernel_thp.fleet.evaluate:
    uname: 6.1.187-1.x86_64+thp.cloud
  register: found

- name: Stop if the host is not as it should be
  ansible.builtin.assert:
    that: found.problems | length == 0
    fail_msg: "{{ found.msg }}"
"""

RETURN = """
problems:
  description: What is wrong, one sentence each.
  returned: always
  type: list
  elements: str
msg:
  description: The first ten problems, joined in one line; empty if there are none.
  returned: always
  type: str
validate:
  description: The output of C(thp-validate --json), without the selftests that passed; null if there is none.
  returned: always
  type: dict
counters:
  description: Memory, pressure and counters of huge pages.
  returned: always
  type: dict
boot_id:
  description: The boot that was evaluated.
  returned: always
  type: str
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.module_utils import (
    counters,
    files,
    kernel_log,
    loaders,
    services,
    snapshot,
    validator,
)
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.module import Parameters, Result, main
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

ARGUMENTS = {
    "uname": {"type": "str", "default": ""},
    "is_default": {"type": "bool", "default": False},
    "selftests": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 3600},
    "allowed": {"type": "list", "elements": "str", "default": []},
    "services": {"type": "str", "choices": ["all", "drained", "ignored"], "default": "ignored"},
    "services_timeout": {"type": "int", "default": 300},
    "services_allowed": {"type": "list", "elements": "str", "default": []},
}
# How thp-validate names its check of the taint.
TAINT = "kernel-taint"
LOCK = Path("/run/kernel-thp-selftests.lock")
# As many problems as a message names.
SHOWN = 10


def validate(allowed: list[str], timeout: float, selftests: bool) -> dict[str, Any]:
    """Run thp-validate. Selftests take a lock: those of a run that was killed may still be running."""
    options = [f"--allow-log={pattern}" for pattern in allowed]
    if not selftests:
        return run_validate(options, timeout)
    began = time.monotonic()
    with files.locked(LOCK, timeout) as lock:
        if lock is None:
            raise Problem(f"other selftests have been running for {timeout:.0f} s", "see what they wait for")
        return run_validate([*options, "--selftests"], timeout - (time.monotonic() - began))


def run_validate(options: list[str], timeout: float) -> dict[str, Any]:
    found = validator.run(options, timeout)
    if found["selftests"]:
        # Ansible remembers this of every host in a batch, so leave out the tests that passed.
        found["selftests"]["tests"] = [test for test in found["selftests"]["tests"] if not test["accepted"]]
    return found


def kernel(parameters: Parameters) -> list[str]:
    found = []
    if parameters["uname"] and snapshot.uname() != parameters["uname"]:
        found.append(f"{snapshot.uname()} runs, not {parameters['uname']}")
    if parameters["is_default"]:
        loader = loaders.find()
        if not loader.kept(loader.entry(snapshot.uname())):
            found.append(f"{snapshot.uname()} is not the boot loader's kept default: {loader.settings()}")
    return found


def lost(parameters: Parameters, record: records.MaybeRecord) -> list[str]:
    """Return what the host offered before and does not now; nothing where that was not recorded."""
    wanted = records.before(record).get(records.SERVICES)
    if record is None or wanted is None or parameters["services"] == "ignored":
        return []
    if parameters["services"] == "drained":
        wanted = services.expected(wanted, record.get("while_drained", wanted))
    return services.wait(wanted, parameters["services_allowed"], parameters["services_timeout"])


def verdict(validated: dict[str, Any], tainted: int) -> list[str]:
    """Return the reasons of thp-validate, and the selftests that failed; `tainted` is how the old kernel was."""
    reasons = [reason for reason in validated["reasons"] if reason["id"] != TAINT or not as_before(validated, tainted)]
    found = [f"{reason['what']}; {reason['hint']}" for reason in reasons]
    tests = validated["selftests"]
    return found + ([f"selftest: {reason}" for reason in tests["reasons"][:5]] if tests else [])


def as_before(validated: Mapping[str, Any], tainted: int) -> bool:
    """Say whether each taint flag is one that the old kernel had as well, and that does not put the host in doubt."""
    # An older thp-validate knows no waivers.
    waived = {each["what"] for each in (validated.get("waivers") or {"waived": ()})["waived"]}
    bad = [flag for flag in validated["kernel"]["taints"] if flag["verdict"] != "ok" and flag["letter"] not in waived]
    return bool(bad) and all(flag["verdict"] == "degraded" and tainted >> flag["bit"] & 1 for flag in bad)


def message(problems: Sequence[str]) -> str:
    """Name the first problems, and say how many more there are."""
    more = f" (and {len(problems) - SHOWN} more)" if len(problems) > SHOWN else ""
    return " / ".join(problems[:SHOWN]) + more


def work(parameters: Parameters, check: bool) -> Result:
    record = records.Store().read()
    before = records.before(record)
    allowed = [*parameters["allowed"], *kernel_log.allowed(before.get("complaints", ()))]
    problems = kernel(parameters) + lost(parameters, record)
    complained = [f"the kernel complained: {line}" for line in kernel_log.complaints(allowed)[:5]]
    validated = None
    try:
        # Selftests of the wrong kernel, or of one that already logged a defect, would show nothing.
        selftests = parameters["selftests"] and not problems and not complained and not check
        validated = validate(allowed, parameters["timeout"], selftests)
        problems = verdict(validated, before.get("tainted", 0)) + problems
        # It names the complaints as well, and those that came during the selftests; an older one does not.
        if not validated["kernel"].get("splats"):
            problems += complained
    except Problem as problem:
        problems += [*complained, str(problem)]
    result = {
        "problems": problems,
        "validate": validated,
        "counters": counters.read().as_dict(),
        "boot_id": snapshot.boot_id(),
    }
    return {**result, "msg": message(problems), "changed": False}


if __name__ == "__main__":
    main(ARGUMENTS, work)
