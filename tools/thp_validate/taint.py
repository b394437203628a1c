"""The kernel's taint flags, and which of them a supported host may have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

OK, DEGRADED, UNSUPPORTED = "ok", "degraded", "unsupported"
VERDICTS = (OK, DEGRADED, UNSUPPORTED)


@dataclass(frozen=True)
class Flag:
    """A taint flag of the kernel."""

    bit: int
    letter: str
    meaning: str
    verdict: Annotated[str, "of a host with this flag", VERDICTS]


# Unsupported: the kernel oopsed, or its memory or machine may be faulty, so nothing it reports is reliable. Degraded:
# somebody else's code or setting may explain a problem. The rest says nothing about this kernel.
FLAGS = (
    Flag(0, "P", "a proprietary module was loaded", DEGRADED),
    Flag(1, "F", "a module was loaded by force", UNSUPPORTED),
    Flag(2, "S", "the processor is out of its specification", UNSUPPORTED),
    Flag(3, "R", "a module was removed by force", UNSUPPORTED),
    Flag(4, "M", "the processor reported a machine check", UNSUPPORTED),
    Flag(5, "B", "a page was found in a bad state", UNSUPPORTED),
    Flag(6, "U", "a program requested the taint", DEGRADED),
    Flag(7, "D", "the kernel died recently: an oops or BUG", UNSUPPORTED),
    Flag(8, "A", "an ACPI table was overridden", DEGRADED),
    Flag(9, "W", "the kernel issued a warning", DEGRADED),
    Flag(10, "C", "a staging driver was loaded", DEGRADED),
    Flag(11, "I", "a workaround for the firmware is in use", OK),
    Flag(12, "O", "a module from outside of the tree was loaded", DEGRADED),
    Flag(13, "E", "an unsigned module was loaded", DEGRADED),
    Flag(14, "L", "a processor was stuck: soft lockup", UNSUPPORTED),
    Flag(15, "K", "the kernel is live patched", DEGRADED),
    Flag(16, "X", "the distribution uses its own flag", OK),
    Flag(17, "T", "structures were laid out at random", OK),
    Flag(18, "N", "a kernel test ran", DEGRADED),
    Flag(19, "J", "a program changed firmware state", DEGRADED),
)


def flags(mask: int) -> list[Flag]:
    """Return the flags of a mask. A bit without a name here comes from a later kernel."""
    known = {flag.bit: flag for flag in FLAGS}
    bits = [bit for bit in range(mask.bit_length()) if mask >> bit & 1]
    return [known.get(bit, Flag(bit, f"#{bit}", "a flag this program does not know", DEGRADED)) for bit in bits]
