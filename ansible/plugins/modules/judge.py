#!/usr/bin/python
"""Judge the kernel that runs, and change nothing."""

from __future__ import annotations

DOCUMENTATION = """
module: judge
short_description: Judge the running kernel and how it is set up
version_added: 1.0.0
description:
  - Asks C(thp-validate), with the selftests if wanted, reads the kernel's log for complaints, and looks at which kernel
    runs and is the default. Fails if anything is not as it should be.
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
    description: Regular expressions of lines in the kernel's log that look like a defect and are known not to be one.
    default: []
    type: list
    elements: str
  fail:
    description: Whether a problem is a failure. If not, problems are returned all the same.
    default: true
    type: bool
attributes:
  check_mode: {support: full, description: It changes nothing in either mode, but runs no selftests in check mode.}
"""

EXAMPLES = """
- name: Judge the host
  kernel_thp.fleet.judge:
    uname: 6.1.187-1.x86_64+thp
"""

RETURN = """
problems:
  description: What is wrong, one sentence each.
  returned: always
  type: list
  elements: str
validate:
  description: What C(thp-validate --json) printed, without the selftests that were accepted; null if it could not.
  returned: always
  type: dict
counters:
  description: Memory, pressure and counters of huge pages.
  returned: always
  type: dict
boot_id:
  description: Which boot was judged.
  returned: always
  type: str
"""

import json
import re
import time
from pathlib import Path
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.module_utils import (
    command,
    counters,
    files,
    kernel_log,
    loaders,
    snapshot,
)
from ansible_collections.kernel_thp.fleet.plugins.module_utils.module import Parameters, Result, main
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

ARGUMENTS = {
    "uname": {"type": "str", "default": ""},
    "is_default": {"type": "bool", "default": False},
    "selftests": {"type": "bool", "default": False},
    "timeout": {"type": "int", "default": 3600},
    "allowed": {"type": "list", "elements": "str", "default": []},
    "fail": {"type": "bool", "default": True},
}
# Its exit codes 0 to 2 are verdicts, with an object to read.
VERDICTS = (0, 1, 2)
LOCK = Path("/run/kernel-thp-selftests.lock")


def validate(selftests: bool, timeout: float) -> dict[str, Any]:
    """Ask thp-validate. Two that run selftests at a time, one for a run that was killed, would disturb each other."""
    if not selftests:
        return ask(selftests, timeout)
    began = time.monotonic()
    with files.locked(LOCK, timeout) as lock:
        if lock is None:
            raise Problem(f"other selftests have been running for {timeout:.0f} s", "see what they wait for")
        return ask(selftests, timeout - (time.monotonic() - began))


def ask(selftests: bool, timeout: float) -> dict[str, Any]:
    words = ["thp-validate", "--json", *(["--selftests"] if selftests else [])]
    done = command.run(words, timeout)
    if done.code not in VERDICTS:
        raise Problem(f"`{' '.join(words)}` gave no verdict: {done.last}", "install thp-tools")
    found = dict(json.loads(done.out))
    if found["selftests"]:
        # A failed task shows its whole result: what is good is left out of it.
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
    try:
        splats = kernel_log.splats(kernel_log.read(), parameters["allowed"])
    except re.error as error:
        raise Problem(f"a pattern of lines to allow is not a regular expression: {error}", "correct it") from None
    found += [f"the kernel complained: {line}" for line in splats[:5]]
    return found


def verdict(validated: dict[str, Any]) -> list[str]:
    """Return the reasons of thp-validate, and what was wrong with the selftests by name."""
    found = [f"{reason['what']}; {reason['hint']}" for reason in validated["reasons"]]
    tests = validated["selftests"]
    return found + ([f"selftest: {reason}" for reason in tests["reasons"][:5]] if tests else [])


def work(parameters: Parameters, check: bool) -> Result:
    problems = kernel(parameters)
    validated = None
    try:
        # Selftests of the wrong kernel, or of one that complained already, would tell nothing.
        validated = validate(parameters["selftests"] and not problems and not check, parameters["timeout"])
        problems = verdict(validated) + problems
    except Problem as problem:
        problems.append(str(problem))
    result = {
        "problems": problems,
        "validate": validated,
        "counters": counters.read().as_dict(),
        "boot_id": snapshot.boot_id(),
    }
    if problems and parameters["fail"]:
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        return {**result, "failed": True, "msg": " / ".join(problems[:3]) + more}
    return {**result, "changed": False}


if __name__ == "__main__":
    main(ARGUMENTS, work)
