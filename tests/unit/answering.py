"""The program of a simulated host: the collection's own module keeps record and holder, all other answers are made up.

Unless it is told to, it never needs a reboot: after a boot once or a rollback, it reports the other kernel as running.
"""

from __future__ import annotations

import ast
import json
import os
import runpy
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.unit.simulated import BEFORE, COUNTERS, HOLDER, OLD, RECORD, UUID, Host, target

MODULE = "ansible_collections.kernel_thp.fleet.plugins.modules.record"
# The program with which Ansible starts a module in the background.
WRAPPER = "async_wrapper"
ARGS = "ANSIBLE_MODULE_ARGS"
BOOT_ID = "b1"
FIT = {
    "root": True,
    "machine": "x86_64",
    "rpm": True,
    "dnf": True,
    "fips": False,
    "no_watchdog": None,
    "configured_sysctls": {},
}
BOOT = {"loader": "systemd-boot", "problems": [], "free_bytes": 1 << 40, "path": "/efi"}
Result = dict[str, Any]


def main(folder: str, words: list[str]) -> None:
    """Answer as a module does, one that Ansible made a program of."""
    host = Host(Path(folder))
    module, arguments = (WRAPPER, {ARGS: {}}) if words else called(sys.stdin.read())
    given = {name: value for name, value in arguments[ARGS].items() if not name.startswith("_")}
    host.noted(module, given)
    if module in host.like["says"]:
        time.sleep(host.like["says"][module].get("seconds", 0))
        print(json.dumps(host.like["says"][module]))
    elif module == "record":
        keep(host, arguments)
    else:
        print(json.dumps(ANSWERS.get(module, did)(host, {**given, "words": words})))


def called(program: str) -> tuple[str, Result]:
    """Return which module a program is, and what Ansible gives it."""
    arguments = dict(json.loads(next(parameters(ast.parse(program)))))
    return str(arguments[ARGS]["_ansible_module_name"]).rpartition(".")[2], arguments


def parameters(program: ast.AST) -> Iterator[str]:
    """Yield the JSON in a program: an argument of a call, or before ansible-core 2.19 a variable."""
    for node in ast.walk(program):
        if isinstance(node, ast.keyword) and node.arg == "params":
            yield ast.literal_eval(node.value)
        if isinstance(node, ast.Assign) and "ANSIBALLZ_PARAMS" in map(ast.unparse, node.targets):
            yield ast.literal_eval(node.value)


def keep(host: Host, arguments: Result) -> None:
    """Run the module with the folder and the state of this host instead of the machine's."""
    from ansible.module_utils import basic
    from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records

    # Before other modules use it as their default.
    records.FOLDER = host.folder
    records.Store.__init__.__defaults__ = (host.folder,)
    from ansible_collections.kernel_thp.fleet.plugins.module_utils import holder, snapshot, undo

    assert records.Store().path.parent == holder.path().parent == host.folder
    uname = host.like["uname"]
    snapshot.uname = lambda: uname
    snapshot.identity = lambda: identity(host)
    snapshot.before = lambda: {**BEFORE, "uname": uname}
    undo.hindrances = undo.remains = lambda record: []
    os.geteuid = lambda: 0
    basic._ANSIBLE_ARGS, basic._ANSIBLE_PROFILE = json.dumps(arguments).encode(), "legacy"
    runpy.run_module(MODULE, run_name="__main__")


def did(_host: Host, _given: Result) -> Result:
    return {"changed": True, "rc": 0}


def identity(host: Host) -> str:
    return str(host.like["identity"] or f"{host.folder.name} {UUID}")


def host_info(host: Host, _given: Result) -> Result:
    like = {"uname": host.like["uname"], "tuned_gone": host.like["tuned_gone"]}
    seen = {**FIT, **like, "identity": identity(host), "boot": BOOT, "root_free_bytes": 1 << 40, "counters": COUNTERS}
    return {"host": seen, "record": host.read(RECORD), "holder": host.read(HOLDER)}


def repository(host: Host, given: Result) -> Result:
    return {"target": target(given.get("release") or host.like["newest"])}


def boot(host: Host, given: Result) -> Result:
    if given["state"] in ("once", "returning"):
        host.be(uname=OLD if given["state"] == "returning" else given["uname"])
    if given["state"] == "confirmed":
        host.write(RECORD, {**host.record, "phase": "booted"})
    return {"changed": True, "reboot": given["state"] == "once" and host.like["reboots"], "boot_id": BOOT_ID}


def evaluate(host: Host, given: Result) -> Result:
    from ansible_collections.kernel_thp.fleet.plugins.module_utils import splat_list

    problems = splat_list.splats(host.like["log"], given.get("allowed", []))
    validated = {"kernel": {"uname": host.like["uname"]}, "verdict": "supported"}
    found = {"problems": problems, "validate": validated, "counters": COUNTERS, "boot_id": BOOT_ID}
    return {**found, "msg": " / ".join(problems)}


def async_wrapper(_host: Host, given: Result) -> Result:
    return {"started": 1, "finished": 0, "ansible_job_id": given["words"][1]}


def async_status(host: Host, _given: Result) -> Result:
    """Report that the soak is over, the only background job here."""
    host.be(log=host.like["log"] + host.like["loaded"])
    return {"started": 1, "finished": 1, "figures": {}, "counters": COUNTERS, "boot_id": BOOT_ID}


ANSWERS = {each.__name__: each for each in (host_info, repository, boot, evaluate, async_wrapper, async_status)}
