"""The report as one self-contained page: for a mail, a ticket, or a browser without a network.

The template escapes everything; here are the texts of its cells.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import BAD, GOOD
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup, escape

TEMPLATE = Path(__file__).with_name("page.html.j2")
PAGE_BYTES = 4096
NOTHING = "-"
BAR = Markup('{0:.0f} % <span class="bar"><i style="width:{0:.0f}%"></i></span>')


def render(run: dict[str, Any]) -> str:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters.update(kind=kind, figures=figures, duration=duration, both=both)
    return environment.from_string(TEMPLATE.read_text()).render(run=run) + "\n"


def kind(result: str) -> str:
    return "good" if result in GOOD else "bad" if result in BAD else "open"


def both(before: object, after: object) -> Markup:
    shown = [escape(NOTHING if value is None else value) for value in (before, after)]
    return shown[0] if shown[0] == shown[1] else Markup(" → ").join(shown)


def duration(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def figures(facts: dict[str, Any], when: str) -> dict[str, Any]:
    """Return what is shown of a host before or after, None for what is unknown."""
    found = facts.get(when) or {}
    counters = found.get("counters") or {}
    memory, events = counters.get("memory") or {}, counters.get("events") or {}
    anonymous, huge = memory.get("AnonPages"), memory.get("AnonHugePages")
    dropped, waited = events.get("thp_zero_subpages_dropped"), counters.get("pressure_us")
    # Afterwards, that of the soak; before, that since the boot.
    pressure = (facts.get("soak") or {}).get("pressure") if when == "after" else None
    if when == "before" and waited is not None and counters.get("uptime"):
        pressure = waited / counters["uptime"] / 1e4
    return {
        "kernel": found.get("uname"),
        "available": _size(memory.get("MemAvailable")),
        "huge": _size(huge),
        "share": BAR.format(min(100.0, 100 * huge / anonymous)) if anonymous and huge is not None else None,
        "split": events.get("thp_underused_split_page"),
        "dropped": _size(None if dropped is None else dropped * PAGE_BYTES),
        "pressure": None if pressure is None else f"{pressure:.1f} %",
    }


def _size(value: float | None) -> str | None:
    if value is None:
        return None
    return f"{value / (1 << 30):.1f} GiB" if value >= 10 << 30 else f"{value / (1 << 20):.0f} MiB"
