"""Say on the console when the rollout of this host has got to a phase: `announce.py PHASE`, run on the host.

Whoever watches the console can do something to the host that very moment, which asking by ssh would be too slow for. A
script of its own, so that it can be sent there.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

RECORD = Path("/var/lib/kernel-thp/rollout.json")
# What is written there is a line of the kernel's log; one that is critical is on the console at once.
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
