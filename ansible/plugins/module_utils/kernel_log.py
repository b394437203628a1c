"""The kernel's log since the boot, and what the old kernel complained about in it as well.

Two complaints are the same if they are of one kind and from one place, whatever their time, process, processor or
addresses. The place is the text without these: for a warning the file and the function, but not the line, which differs
between kernels.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, files, splat_list
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

TAINTED = Path("/proc/sys/kernel/tainted")
# However often the old kernel crashed or damaged its memory, the new one must not.
NEVER = (splat_list.CRASH, splat_list.DAMAGE)
# A place in a function, with what the compiler adds to its name, and the module that has it; or a number, which digits
# of a name are not.
OFFSET = r"(?:\.[a-z0-9_.]+)?\+0x[0-9a-f]+/0x[0-9a-f]+(?: \[\w+\])?"
NUMBER = r"\b(?:0x[0-9a-f]+|[0-9a-f]{8,}\b|\d+)"
DIFFERS = re.compile(f"({OFFSET})|({NUMBER})")


def read() -> str:
    for words in splat_list.READERS:
        done = command.run(words)
        if done.code == 0 and splat_list.START in done.out:
            return done.out
    raise Problem("the kernel's log since the boot cannot be read", "check whether journalctl -k -b shows it")


def same(complaint: str) -> str:
    """Return a regular expression of all complaints of this kind and from this place."""
    parts, end = [], 0
    for match in DIFFERS.finditer(complaint):
        parts += [re.escape(complaint[end : match.start()]), OFFSET if match[1] else NUMBER]
        end = match.end()
    return f"^{''.join(parts)}{re.escape(complaint[end:])}$"


def complaints(allowed: Sequence[str]) -> list[str]:
    """Return what the kernel complains about and `allowed` does not name."""
    try:
        return splat_list.splats(read(), allowed)
    except re.error as error:
        raise Problem(f"a pattern of lines to allow is not a regular expression: {error}", "correct it") from None


def known() -> list[str]:
    """Return what this kernel has complained about, one line for each place; of an old boot, what the log still has."""
    found: dict[str, str] = {}
    for words in splat_list.READERS:
        for line in splat_list.splats(command.run(words).out, []):
            found.setdefault(same(line), line)
    return list(found.values())


def allowed(complaints: Sequence[str]) -> list[str]:
    """Return regular expressions of what the new kernel may complain about, because the old one did."""
    kinds = ((line, splat_list.kind(line)) for line in complaints)
    return [same(line) for line, kind in kinds if kind and kind.meaning not in NEVER]


def tainted() -> int:
    return int(files.word(TAINTED) or 0)
