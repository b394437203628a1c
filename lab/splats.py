"""Find splats in a console or dmesg log: `splat_list.py` has the kinds of them, `splats-allowed.txt` the exceptions."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from pathlib import Path

from lab import splat_list
from scripts.console import UserError

LIST = Path(splat_list.__file__)
ALLOWED = Path(__file__).resolve().parent / "splats-allowed.txt"

# A kernel that prints one of these is dead.
FATAL = re.compile(r"Kernel panic - not syncing|Attempted to kill init|---\[ end Kernel panic")


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


def scan(log: str, exceptions: list[Allowed], from_start: bool = True) -> list[Splat]:
    """Return the lines of a log that report a kernel defect and are not excepted.

    A log without a kernel start is an error, because the console was lost, unless it does not begin there.
    """
    if from_start and splat_list.START not in log:
        raise UserError("the log holds no kernel start", "check the VM's console= settings: nothing was scanned")
    found = []
    for number, line in enumerate(log.splitlines(), 1):
        if splat_list.kind(line) and not any(entry.pattern.search(line) for entry in exceptions):
            found.append(Splat(number, line.strip()))
    return found


def fatal(log: str) -> str | None:
    """Return the line that says the kernel is dead, if there is one."""
    match = FATAL.search(log)
    if match is None:
        return None
    start = log.rfind("\n", 0, match.start()) + 1
    return log[start:].split("\n", 1)[0].strip()
