"""Ask thp-validate on a lab host, and give it something to find: a program whose memory is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from lab.vm import Vm
from scripts.console import ROOT

SCHEMA = json.loads((ROOT / "tools" / "thp-validate.schema.json").read_text())
SPARSE = Path(__file__).with_name("sparse.py")
SYSFS = "/sys/kernel/mm/transparent_hugepage"
EXIT = {"supported": 0, "degraded": 1, "unsupported": 2}
SAID = "/tmp/said"
GROUP = "/sys/fs/cgroup/sparse"
LIVE = (40, 512, 1, 103)
COUNT = 20


def ask(host: Vm, *options: str, prefix: str = "", timeout: float = 120.0) -> dict[str, Any]:
    """Return the JSON object, which has to be valid and to agree with the exit code."""
    command = f"{prefix} thp-validate --json {' '.join(options)} 2>{SAID}"
    done = host.run(command, timeout=timeout, check=False)
    assert done.code in EXIT.values(), f"{done.text} {host.run(f'cat {SAID}').text}"
    found: dict[str, Any] = json.loads(done.text)
    jsonschema.validate(found, SCHEMA)
    assert done.code == EXIT[found["verdict"]]
    return found


def wrong(found: dict[str, Any]) -> dict[str, str]:
    return {name: result for name, result in found["checks"].items() if result not in ("ok", "skipped")}


def set_knob(host: Vm, name: str, value: str) -> None:
    host.run(f"echo {value} > {SYSFS}/{name}")


def start_sparse(host: Vm) -> int:
    """Start a program with known content in a cgroup of its own, and return its pid."""
    host.write("/root/sparse.py", SPARSE.read_text())
    live = ",".join(map(str, LIVE))
    # Nobody else is to make huge pages meanwhile. khugepaged is woken by the first program to come within its reach,
    # however long it sleeps otherwise: with `always` it would make one of the interpreter's own memory.
    set_knob(host, "khugepaged/scan_sleep_millisecs", "3600000")
    enabled = host.run(rf"sed 's/.*\[\(.*\)\].*/\1/' {SYSFS}/enabled").text
    set_knob(host, "enabled", "madvise")
    host.run(
        f"mkdir -p {GROUP} && echo +memory > /sys/fs/cgroup/cgroup.subtree_control; rm -f /tmp/ready; "
        f"setsid sh -c 'echo $$ > {GROUP}/cgroup.procs; tail -f /dev/null | "
        f"python3 /root/sparse.py {COUNT} {live} > /tmp/ready' > /dev/null 2>&1 < /dev/null & "
        "timeout 60 sh -c 'until grep -q ready /tmp/ready; do sleep 0.5; done'"
    )
    assert host.run("cat /tmp/ready").text == f"ready {COUNT}"
    set_knob(host, "enabled", enabled)
    return int(host.run("pgrep -f '^python3 /root/sparse.py'").text)


def stop_sparse(host: Vm) -> None:
    host.run(f"echo 1 > {GROUP}/cgroup.kill; timeout 20 sh -c 'until rmdir {GROUP}; do sleep 0.2; done'")


def given_back(threshold: int) -> tuple[int, int]:
    zeros = [512 - LIVE[number % len(LIVE)] for number in range(COUNT)]
    split = [zero for zero in zeros if zero > threshold]
    return len(split), sum(split) * 4096


def expect_exact(estimate: dict[str, Any]) -> None:
    assert estimate["complete"]
    assert estimate["total"]["read"] == COUNT
    for threshold in estimate["total"]["thresholds"]:
        assert (threshold["split"], threshold["bytes"]) == given_back(threshold["pages"])
        assert threshold["bytes_error"] == 0
