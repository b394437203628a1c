"""The kernel's log since the boot: the splats in it, and what they mean for the host."""

from __future__ import annotations

from collections.abc import Sequence

from .splat_list import BLIND, CRASH, DAMAGE, DEVICE, READERS, RULE, STALL, START, WARNING, kind, splats
from .system import System
from .taint import DEGRADED, UNSUPPORTED

# How it is called among what could not be seen.
NAME = "kernel log"
REPORT = "report this with `sos report`"
BACK = f"boot the previous kernel, and {REPORT}"
# The worst first: verdict, and what to do about it.
MEANINGS = {
    CRASH: (UNSUPPORTED, BACK),
    DAMAGE: (UNSUPPORTED, f"reboot, as memory may hold wrong data; if it happens again, {BACK}"),
    DEVICE: (DEGRADED, "check the disk that the host swaps to, and restart the programs that it ended"),
    STALL: (DEGRADED, f"if the host was not just overloaded and no disk was slow, {REPORT}"),
    RULE: (DEGRADED, REPORT),
    WARNING: (DEGRADED, REPORT),
    BLIND: (DEGRADED, "reboot, if you need what this checker of the kernel finds"),
}


def collect(system: System, allowed: Sequence[str] = ()) -> list[str] | None:
    """Return the splats, each once, or None if nothing of the log can be read. Record whether any of it is missing.

    What the journal missed, the ring buffer may still have, and vice versa.
    """
    if system.container():
        return None
    texts = []
    for command in READERS:
        output = system.run(command)
        if output is None:
            continue
        if output.code == 0:
            texts.append(output.text)
        else:
            system.unseen[NAME] = (output.text.splitlines() or ["it is not readable"])[-1]
    if any(START in text for text in texts):
        system.unseen.pop(NAME, None)
    else:
        system.unseen.setdefault(NAME, "its beginning is missing" if texts else "neither journalctl nor dmesg reads it")
    return splats("\n".join(texts), allowed) if texts else None


def meaning(found: Sequence[str]) -> tuple[str, str]:
    """Return the verdict on splats and a hint, those of the worst."""
    known = {each.meaning for each in map(kind, found) if each}
    return next(verdict for name, verdict in MEANINGS.items() if name in known)
