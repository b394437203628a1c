"""Transparent huge pages: what the kernel supports, and its settings, with the defrag mode."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from . import kernel
from .system import System

SYSFS = "/sys/kernel/mm/transparent_hugepage"
DEFRAG_MODE = "/proc/sys/vm/defrag_mode"
# Only kernel-thp knows the first; the second takes effect right before init starts.
AT_BOOT = OWN, LATE = "defrag_mode", "sysctl.vm.defrag_mode"
FOLLOWS = "khugepaged"
INHERIT = "inherit"
BRACKETS = re.compile(r"\[(\S+)\]")


@dataclass
class Thp:
    """The settings of transparent huge pages. Null: not there, or not readable."""

    COMPUTED: ClassVar = ("threshold",)
    present: Annotated[bool, "whether the kernel has transparent huge pages"] = False
    page_bytes: int = field(default_factory=lambda: os.sysconf("SC_PAGE_SIZE"))
    huge_page_bytes: int | None = None
    enabled: str | None = None
    size_enabled: Annotated[str | None, "of the largest size, Linux 6.8 and later; inherit: enabled decides"] = None
    defrag: str | None = None
    defrag_mode: Annotated[int | None, "vm.defrag_mode; null where the kernel has none"] = None
    defrag_mode_at_boot: Annotated[str | None, "the parameter on the kernel command line that sets it to 1"] = None
    swapin_enabled: Annotated[str | None, "which huge pages come back from swap in one piece"] = None
    shrink_underused: int | None = None
    underused_max_ptes_none: Annotated[str | None, "khugepaged, or a number"] = None
    max_ptes_none: Annotated[int | None, "khugepaged/max_ptes_none"] = None

    @property
    def subpages(self) -> int | None:
        return self.huge_page_bytes // self.page_bytes if self.huge_page_bytes else None

    @property
    def enabled_in_force(self) -> str | None:
        """Linux 6.8 and later have a switch per size, which can override the general one."""
        return self.enabled if self.size_enabled in (None, INHERIT) else self.size_enabled

    @property
    def threshold(self) -> int | None:
        """The number of zero-filled pages above which a huge page is underused; null without a shrinker."""
        if self.shrink_underused is None:
            return None
        own = self.underused_max_ptes_none
        return int(own) if own is not None and own != FOLLOWS else self.max_ptes_none


def collect(system: System) -> Thp:
    thp = Thp(present=system.path(SYSFS).is_dir())
    thp.huge_page_bytes = _number(system, f"{SYSFS}/hpage_pmd_size")
    thp.enabled = _choice(system, "enabled")
    if thp.huge_page_bytes:
        thp.size_enabled = _choice(system, f"hugepages-{thp.huge_page_bytes >> 10}kB/enabled")
    thp.defrag = _choice(system, "defrag")
    thp.defrag_mode = _number(system, DEFRAG_MODE)
    thp.defrag_mode_at_boot = _at_boot(system.read("/proc/cmdline") or "", own=kernel.of(system) != kernel.OTHER)
    thp.swapin_enabled = _choice(system, "swapin_enabled")
    thp.shrink_underused = _number(system, f"{SYSFS}/shrink_underused")
    own = system.word(f"{SYSFS}/underused_max_ptes_none")
    thp.underused_max_ptes_none = own if own and (own == FOLLOWS or own.isdecimal()) else None
    thp.max_ptes_none = _number(system, f"{SYSFS}/khugepaged/max_ptes_none")
    return thp


def _at_boot(command_line: str, own: bool) -> str | None:
    """Return the last parameter that sets the mode, if it sets it to 1."""
    known = AT_BOOT if own else (LATE,)
    found = [word for word in command_line.split() if word.partition("=")[0] in known]
    return found[-1] if found and found[-1].partition("=")[2].lower() in ("1", "y", "on") else None


def _number(system: System, name: str) -> int | None:
    text = system.word(name) or ""
    return int(text) if text.isdecimal() else None


def _choice(system: System, name: str) -> str | None:
    """Return the bracketed word of a list of choices."""
    match = BRACKETS.search(system.read(f"{SYSFS}/{name}") or "")
    return match.group(1) if match else None
