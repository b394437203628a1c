"""The report as one self-contained page: for a mail, a ticket, or a browser without a network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import BAD, GOOD

STYLE = """
:root { color-scheme: light dark; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35em .6em; border-bottom: 1px solid #8884; }
th { font-weight: 600; white-space: nowrap; }
td.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.good { color: #18794e; } .bad { color: #c62828; font-weight: 600; } .open { color: #8a6d00; }
.bar { display: inline-block; width: 5em; height: .6em; background: #8883; }
.bar i { display: block; height: 100%; background: #3b82c4; }
.scroll { overflow-x: auto; } small, summary { color: #777; }
"""
HEADINGS = (
    "host",
    "result",
    "kernel",
    "memory available",
    "huge pages in use",
    "huge share of anonymous memory",
    "split as underused",
    "given back",
    "waited for memory",
    "verdict",
    "time",
)
LEGEND = (
    "Before is the kernel that ran when the run began, after is the last measurement of this run. Counters are since "
    "the boot. Memory that was waited for: share of the time since the boot, and during the soak."
)
SPLIT, DROPPED = "thp_underused_split_page", "thp_zero_subpages_dropped"
PAGE_BYTES = 4096
NOTHING = "-"
ARROW = " → "


def render(run: dict[str, Any]) -> str:
    title = f"{run['playbook']} {run['run']}"
    rows = "\n".join(_row(host) for host in run["hosts"])
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    headings = "".join(f"<th>{escape(name)}</th>" for name in HEADINGS)
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head>{head}</head><body>',
        f"<h1>{escape(title)}</h1>",
        _state(run),
        *_failures(run["hosts"]),
        "<h2>Hosts</h2>",
        f'<div class="scroll"><table><thead><tr>{headings}</tr></thead><tbody>\n{rows}\n</tbody></table></div>',
        f"<p><small>{LEGEND}</small></p>",
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _state(run: dict[str, Any]) -> str:
    counts = ", ".join(f"{count} {_result(result)}" for result, count in run["counts"].items())
    times = f"from {escape(run['began'])} to {escape(run['ended'] or 'now: still under way')}"
    why = f"<p>{escape(run['why'])}</p>" if run["why"] else ""
    check = " (check mode: nothing was changed)" if run["check"] else ""
    kind = "open" if run["state"] == "running" else "bad" if run["failed"] else "good"
    state = f'<span class="{kind}">{escape(run["state"])}</span>'
    return f"<p>{state}{check}, {times}, by {escape(run['controller'])}: {counts}</p>{why}"


def _failures(hosts: Sequence[dict[str, Any]]) -> list[str]:
    failed = [host for host in hosts if host["failed"]]
    if not failed:
        return []
    items = []
    for host in failed:
        failure = host["failed"]
        then = f"<br>{escape(failure['then'])}" if failure.get("then") else ""
        task = f" <small>({escape(failure['task'])})</small>" if failure.get("task") else ""
        what = f"<b>{escape(host['host'])}</b>: {_result(host['result'])}, in {escape(failure['step'])}{task}"
        items.append(f"<li>{what}<br>{escape(failure['why'])}{then}</li>")
    return ["<h2>What failed</h2>", f"<ul>{''.join(items)}</ul>"]


def _row(host: dict[str, Any]) -> str:
    facts = host["facts"]
    before, after = facts.get("before") or {}, facts.get("after") or {}
    old, new = before.get("counters") or {}, after.get("counters") or {}
    cells = [
        f"<td>{escape(host['host'])}{_steps(host['steps'])}{_remarks(facts)}</td>",
        f"<td>{_result(host['result'])}</td>",
        f"<td>{_both(before.get('uname'), after.get('uname'))}</td>",
        _number(_both(_memory(old, "MemAvailable"), _memory(new, "MemAvailable"))),
        _number(_both(_memory(old, "AnonHugePages"), _memory(new, "AnonHugePages"))),
        _number(_both(_share(old), _share(new))),
        _number(_both(_event(old, SPLIT), _event(new, SPLIT))),
        _number(_both(_dropped(old), _dropped(new))),
        _number(_both(_pressure(old), _soaked(facts))),
        f"<td>{escape(after.get('verdict') or NOTHING)}</td>",
        _number(_seconds(host["seconds"])),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _result(result: str) -> str:
    kind = "good" if result in GOOD else "bad" if result in BAD else "open"
    return f'<span class="{kind}">{escape(result)}</span>'


def _steps(steps: Sequence[dict[str, Any]]) -> str:
    if not steps:
        return ""
    marks = {True: "", False: " failed", None: " open"}
    lines = "<br>".join(f"{escape(step['name'])}: {_seconds(step['seconds'])}{marks[step['ok']]}" for step in steps)
    return f"<details><summary>steps</summary>{lines}</details>"


def _remarks(facts: dict[str, Any]) -> str:
    return "".join(f"<br><small>{escape(remark)}</small>" for remark in facts.get("remarks") or [])


def _number(text: str) -> str:
    return f'<td class="n">{text}</td>'


def _both(old: object, new: object) -> str:
    """Return before and after. Bars are markup already; everything else is text from a host."""
    shown = [_text(value) for value in (old, new)]
    return shown[0] if shown[0] == shown[1] else ARROW.join(shown)


class Markup(str):
    """Text that is HTML already."""


def _text(value: object) -> str:
    if value is None:
        return NOTHING
    return value if isinstance(value, Markup) else escape(str(value))


def _memory(counters: dict[str, Any], name: str) -> str | None:
    value = (counters.get("memory") or {}).get(name)
    return None if value is None else _size(value)


def _size(value: float) -> str:
    return f"{value / (1 << 30):.1f} GiB" if value >= 10 << 30 else f"{value / (1 << 20):.0f} MiB"


def _share(counters: dict[str, Any]) -> Markup | None:
    memory = counters.get("memory") or {}
    anonymous, huge = memory.get("AnonPages"), memory.get("AnonHugePages")
    if not anonymous or huge is None:
        return None
    percent = min(100.0, 100 * huge / anonymous)
    return Markup(f'{percent:.0f} % <span class="bar"><i style="width:{percent:.0f}%"></i></span>')


def _event(counters: dict[str, Any], name: str) -> int | None:
    value = (counters.get("events") or {}).get(name)
    return None if value is None else int(value)


def _dropped(counters: dict[str, Any]) -> str | None:
    pages = _event(counters, DROPPED)
    return None if pages is None else _size(pages * PAGE_BYTES)


def _pressure(counters: dict[str, Any]) -> str | None:
    waited, uptime = counters.get("pressure_us"), counters.get("uptime")
    return None if waited is None or not uptime else f"{waited / uptime / 1e4:.1f} %"


def _soaked(facts: dict[str, Any]) -> str | None:
    pressure = (facts.get("soak") or {}).get("pressure")
    return None if pressure is None else f"{pressure:.1f} %"


def _seconds(value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"
