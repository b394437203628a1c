"""Find what a kernel prints when something is wrong, in a console or dmesg log."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from pathlib import Path

from scripts.console import UserError

ALLOWED = Path(__file__).resolve().parent / "splats-allowed.txt"

# A kernel that prints one of these is dead.
FATAL = re.compile(r"Kernel panic - not syncing|Attempted to kill init|---\[ end Kernel panic")

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
            # A checker that has given up finds nothing from then on. What kmemleak finds is in its own report.
            r"INFO: lockdep is turned off",
            r"kmemleak: (?:Cannot allocate a kmemleak_object|Kernel memory leak detector disabled)",
        )
    )
)


@dataclass(frozen=True)
class Allowed:
    pattern: re.Pattern[str]
    reason: str
    expires: datetime.date


@dataclass(frozen=True)
class Splat:
    line: int
    text: str


def parse_allowed(text: str, today: datetime.date, origin: str) -> list[Allowed]:
    """Read `pattern | reason | YYYY-MM-DD` lines. A line that is wrong or out of date is an error."""
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        # The pattern may contain `|`; the reason and the date may not.
        fields = [field.strip() for field in line.rsplit("|", 2)]
        hint = "write it as `pattern | reason | YYYY-MM-DD`"
        if len(fields) != 3 or not all(fields):
            raise UserError(f"{origin}:{number}: not three fields", hint)
        try:
            entry = Allowed(re.compile(fields[0]), fields[1], datetime.date.fromisoformat(fields[2]))
        except (re.error, ValueError) as error:
            raise UserError(f"{origin}:{number}: {error}", hint) from None
        if entry.expires < today:
            raise UserError(
                f"{origin}:{number}: `{fields[0]}` was allowed until {entry.expires} only",
                "remove the line, or check the message again and give it a new date",
            )
        entries.append(entry)
    return entries


def allowed(path: Path = ALLOWED) -> list[Allowed]:
    return parse_allowed(path.read_text(), datetime.date.today(), path.name)


def scan(log: str, exceptions: list[Allowed]) -> list[Splat]:
    """Return the lines of a log that report a kernel defect and are not excepted.

    A log without a kernel start is an error, because the console was lost.
    """
    if "Linux version" not in log:
        raise UserError("the log holds no kernel start", "check the VM's console= settings: nothing was scanned")
    found = []
    for number, line in enumerate(log.splitlines(), 1):
        if SPLAT.search(line) and not any(entry.pattern.search(line) for entry in exceptions):
            found.append(Splat(number, line.strip()))
    return found


def fatal(log: str) -> str | None:
    """Return the line that says the kernel is dead, if there is one."""
    match = FATAL.search(log)
    if match is None:
        return None
    start = log.rfind("\n", 0, match.start()) + 1
    return log[start:].split("\n", 1)[0].strip()
