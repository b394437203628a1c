"""Print on the console when the rollout of this host reaches a phase: `announce.py PHASE`, run on the host.

A test that watches the console can inject a fault at that very moment; polling over ssh would be too slow. This is a
script of its own, because it is sent to the host.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

RECORD = Path("/var/lib/kernel-thp/rollout.json")
# What is written there becomes a line of the kernel's log; a critical one appears on the console at once.
KERNEL_LOG = Path("/dev/kmsg")
CRITICAL = "<2>"
POLL = 0.1


def phase() -> str:
    return str(json.loads(RECORD.read_text())["phase"]) if RECORD.exists() else ""


def main(wanted: str) -> None:
    while phase() != wanted:
        time.sleep(POLL)
    KERNEL_LOG.write_text(f"{CRITICAL}lab: the rollout is {wanted}\n")


if __name__ == "__main__":
    main(sys.argv[1])
