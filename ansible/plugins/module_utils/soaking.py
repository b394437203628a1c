"""The soak: under its usual load, the host's memory figures must not be worse than before the rollout.

What counts as before is the host's own past, the whole boot of the old kernel.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ansible_collections.kernel_thp.fleet.plugins.module_utils.counters import Counters

# A share of a shorter time, in seconds, is chance.
SHORTEST = 10.0
ALLOCATED, FELL_BACK = "thp_fault_alloc", "thp_fault_fallback"


@dataclass(frozen=True)
class Limits:
    """How much worse than before each figure may be; None is not checked. Shares are percent."""

    pressure: float | None
    oom_kills: int | None
    fallback: float | None
    # With fewer faults than this, a share of them proves nothing.
    faults: int
    # How long the whole soak takes.
    seconds: float = 0.0


@dataclass(frozen=True)
class Figures:
    """Figures of a period: share of time spent waiting for memory, kills, share of failed huge page faults."""

    seconds: float
    pressure: float | None
    oom_kills: int
    faults: int
    fallback: float | None


def figures(since: Counters | None, until: Counters) -> Figures:
    """Return the figures between two moments of one boot, or since the boot without the first."""
    seconds = until.uptime - (since.uptime if since else 0.0)

    def grown(name: str) -> int:
        return until.events.get(name, 0) - (since.events.get(name, 0) if since else 0)

    pressure = None
    if until.pressure_us is not None:
        waited = until.pressure_us - ((since.pressure_us or 0) if since else 0)
        pressure = waited / seconds / 1e4 if seconds > 0 else 0.0
    faults = grown(ALLOCATED) + grown(FELL_BACK)
    return Figures(
        seconds=seconds,
        pressure=pressure,
        oom_kills=grown("oom_kill"),
        faults=faults,
        fallback=100 * grown(FELL_BACK) / faults if faults else None,
    )


def past(before: Counters) -> Figures:
    """Return the figures of the old kernel; its pressure is the average or the present one, whichever is higher.

    Load has its hours, and the soak soon follows.
    """
    found = figures(None, before)
    if found.pressure is None:
        return found
    return replace(found, pressure=max(found.pressure, before.pressure_recent or 0.0))


def evaluate(before: Figures, soak: Figures, limits: Limits, over: bool) -> list[str]:
    """Return what is worse than the limits allow, compared with the old kernel.

    Only kills are checked before the soak is over: a share of a short time is easily too high.
    """
    checks = (_kills, _pressure, _fallback) if over else (_kills,)
    return [sentence for check in checks if (sentence := check(before, soak, limits))]


def _pressure(before: Figures, soak: Figures, limits: Limits) -> str | None:
    if limits.pressure is None or (before.pressure is None and soak.pressure is None):
        # There was no PSI before either, so the new kernel did not lose it. preflight has remarked on it.
        return None
    if soak.pressure is None:
        return "this kernel has no /proc/pressure/memory, so memory pressure cannot be checked"
    allowed = (before.pressure or 0.0) + limits.pressure
    if soak.pressure <= allowed or soak.seconds < SHORTEST:
        return None
    return f"memory was waited for in {soak.pressure:.1f} % of the time, {allowed:.1f} % is allowed"


def _kills(before: Figures, soak: Figures, limits: Limits) -> str | None:
    if limits.oom_kills is None:
        return None
    # Also before the end: as many may come at the beginning. And one kill in the first minute of a boot is no rate.
    seconds = max(soak.seconds, limits.seconds)
    expected = before.oom_kills * seconds / max(before.seconds, seconds, 1.0)
    # Three standard deviations more are chance, if kills come independently of each other.
    allowed = limits.oom_kills + math.ceil(expected + 3 * math.sqrt(expected))
    if soak.oom_kills <= allowed:
        return None
    return f"{soak.oom_kills} processes were OOM-killed, {allowed} are allowed"


def _fallback(before: Figures, soak: Figures, limits: Limits) -> str | None:
    if limits.fallback is None or soak.fallback is None or soak.faults < limits.faults:
        return None
    known = before.fallback if before.fallback is not None and before.faults >= limits.faults else 0.0
    allowed = known + limits.fallback
    if soak.fallback <= allowed:
        return None
    return f"{soak.fallback:.1f} % of {soak.faults} faults got no huge page, {allowed:.1f} % are allowed"
