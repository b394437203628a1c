"""Wait for a background job on a host, by the clock: polling a host that does not answer takes long."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result

POLL = 5.0


@dataclass(frozen=True)
class Limits:
    """`timeout`: for the job to end; `silence`: for its host to answer; in seconds."""

    timeout: float
    silence: float


def wait(
    poll: Callable[[], Result],
    limits: Limits,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Result:
    """Poll until the job is finished, its time is over, or its host has been silent for too long.

    A poll is work for the host while the job measures it, and no job ends at once. So sleep first.
    """
    began = answered = clock()
    while True:
        sleep(POLL)
        found = poll()
        now = clock()
        if found.get("lost_contact"):
            if now - answered >= limits.silence:
                return {**found, "msg": f"the host was silent for {now - answered:.0f} s: {found['msg']}"}
        elif found.get("finished"):
            return found
        else:
            answered = now
        if now - began >= limits.timeout:
            return {**found, "failed": True, "msg": f"the job did not end within {limits.timeout:.0f} s"}
