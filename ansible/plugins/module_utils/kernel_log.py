"""What a kernel logs when it has a defect. If the log cannot be read, the gate fails."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

START = "Linux version"
SPLAT = re.compile(
    "|".join(
        (
            r"Kernel panic",
            r"\bOops\b",
            r"\bBUG: ",
            r"kernel BUG at",
            r"WARNING: (?:CPU|possible|suspicious|inconsistent|bad unlock|lock held|Nested lock|held lock)",
            r"(?:KASAN|KCSAN|KFENCE|UBSAN|KMSAN): ",
            r"general protection fault",
            r"unable to handle (?:kernel|page fault)",
            r"Bad page (?:state|map)",
            r"list_(?:add|del) corruption",
            r"INFO: (?:task .* blocked|rcu.*(?:stall|self-detected)|lockdep|trying to register)",
            r"rcu: INFO: .*stall",
            r"soft lockup|hard LOCKUP",
            r"refcount_t: ",
            r"page dumped because",
            r"double fault|stack segment|invalid opcode:",
            r"scheduling while atomic|sleeping function called from invalid context",
            r"INFO: lockdep is turned off",
            r"kmemleak: (?:Cannot allocate a kmemleak_object|Kernel memory leak detector disabled)",
        )
    )
)


def read() -> str:
    """Return the kernel's log since the boot: the journal keeps what the ring buffer loses."""
    for words in (["journalctl", "-k", "-b", "--no-pager", "-o", "cat"], ["dmesg"]):
        done = command.run(words)
        if done.code == 0 and START in done.out:
            return done.out
    raise Problem("the kernel's log since the boot cannot be read", "check whether journalctl -k -b shows it")


def splats(log: str, allowed: Sequence[str]) -> list[str]:
    """Return each defect once, without those that match an operator's pattern."""
    patterns = [re.compile(pattern) for pattern in allowed]
    found = (line.strip() for line in log.splitlines() if SPLAT.search(line))
    return list(dict.fromkeys(line for line in found if not any(pattern.search(line) for pattern in patterns)))
