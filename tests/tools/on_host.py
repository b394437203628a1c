"""Run thp-validate on a lab host, and a program whose memory content is known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema

from lab.vm import Vm
from tests.validated import SCHEMA

SPARSE = Path(__file__).with_name("sparse.py")
SYSFS = "/sys/kernel/mm/transparent_hugepage"
EXIT = {"supported": 0, "degraded": 1, "unsupported": 2}
STDERR = "/tmp/stderr"
GROUP = "/sys/fs/cgroup/sparse"
LIVE = (40, 512, 1, 103)
COUNT = 20


def validate(vm: Vm, *options: str, prefix: str = "", timeout: float = 120.0) -> dict[str, Any]:
    """Return the JSON object, which must be valid and agree with the exit code."""
    command = f"{prefix} thp-validate --json {' '.join(options)} 2>{STDERR}"
    done = vm.run(command, timeout=timeout, check=False)
    assert done.code in EXIT.values(), f"{done.text} {vm.run(f'cat {STDERR}').text}"
    found: dict[str, Any] = json.loads(done.text)
    jsonschema.validate(found, SCHEMA)
    assert done.code == EXIT[found["verdict"]]
    return found


def problems(found: dict[str, Any]) -> dict[str, str]:
    return {name: result for name, result in found["checks"].items() if result not in ("ok", "skipped")}


def write_setting(vm: Vm, name: str, value: str) -> None:
    vm.run(f"echo {value} > {SYSFS}/{name}")


def start_sparse(vm: Vm) -> int:
    """Start a program with known content in its own cgroup, and return its pid."""
    vm.write("/root/sparse.py", SPARSE.read_text())
    live = ",".join(map(str, LIVE))
    # Only this program may get huge pages meanwhile. khugepaged wakes up for the first program that it may scan,
    # however long it sleeps otherwise; with `always` it would make a huge page of the interpreter's own memory.
    write_setting(vm, "khugepaged/scan_sleep_millisecs", "3600000")
    enabled = vm.run(rf"sed 's/.*\[\(.*\)\].*/\1/' {SYSFS}/enabled").text
    write_setting(vm, "enabled", "madvise")
    vm.run(
        f"mkdir -p {GROUP} && echo +memory > /sys/fs/cgroup/cgroup.subtree_control; rm -f /tmp/ready; "
        f"setsid sh -c 'echo $$ > {GROUP}/cgroup.procs; tail -f /dev/null | "
        f"python3 /root/sparse.py {COUNT} {live} > /tmp/ready' > /dev/null 2>&1 < /dev/null & "
        "timeout 60 sh -c 'until grep -q ready /tmp/ready; do sleep 0.5; done'"
    )
    assert vm.run("cat /tmp/ready").text == f"ready {COUNT}"
    write_setting(vm, "enabled", enabled)
    return int(vm.run("pgrep -f '^python3 /root/sparse.py'").text)


def stop_sparse(vm: Vm) -> None:
    vm.run(f"echo 1 > {GROUP}/cgroup.kill; timeout 20 sh -c 'until rmdir {GROUP}; do sleep 0.2; done'")


def reclaimed(threshold: int) -> tuple[int, int]:
    """Return how many of the program's huge pages this threshold splits, and the zero-filled bytes in them."""
    zeros = [512 - LIVE[number % len(LIVE)] for number in range(COUNT)]
    split = [zero for zero in zeros if zero > threshold]
    return len(split), sum(split) * 4096


def expect_exact(estimate: dict[str, Any]) -> None:
    assert estimate["complete"]
    assert estimate["total"]["read"] == COUNT
    for threshold in estimate["total"]["thresholds"]:
        assert (threshold["split"], threshold["bytes"]) == reclaimed(threshold["pages"])
        assert threshold["bytes_error"] == 0
