"""One line for monitoring systems that run plugins as Nagios does: status, what is wrong, and performance data."""

from __future__ import annotations

from collections.abc import Sequence

from . import counters, taint
from .checks import SUPPORTED, Check, verdict
from .facts import Facts
from .taint import DEGRADED, UNSUPPORTED

# The exit codes of the verdicts, 0 to 2, are those of these words. 3 is UNKNOWN.
STATUS = {SUPPORTED: "OK", DEGRADED: "WARNING", UNSUPPORTED: "CRITICAL"}
COUNTERS = (counters.SCANNED, counters.SPLIT, counters.DROPPED, "thp_fault_alloc", "thp_fault_fallback")


def line(facts: Facts, checks: Sequence[Check]) -> str:
    found = verdict(list(checks))
    bad = [check for check in checks if check.verdict != taint.OK]
    bad.sort(key=lambda check: check.verdict != UNSUPPORTED)
    text = facts.kernel.uname
    if bad:
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        text = f"{bad[0].id}: {bad[0].what}{more}"
    return f"{_plain(STATUS[found], f'{found}: {text}')} | {' '.join(_performance(facts, len(bad)))}"


def unknown(why: str) -> str:
    return _plain("UNKNOWN", why)


def _plain(status: str, text: str) -> str:
    """Only the performance data may have a bar before it."""
    return f"THP {status} - {' '.join(text.replace('|', '/').split())}"


def _performance(facts: Facts, problems: int) -> list[str]:
    """Return label=value[unit];warn;crit;min;max of each figure; `c` is a counter since the boot."""
    found = [f"problems={problems};;;0"]
    if facts.host.anon_huge_bytes is not None:
        found.append(f"anon_huge={facts.host.anon_huge_bytes}B;;;0;{facts.host.memory_bytes or ''}".rstrip(";"))
    return found + [f"{name}={facts.counters[name]}c" for name in COUNTERS if name in facts.counters]
