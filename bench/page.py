"""The report as one self-contained page: no network, no other file."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from bench import plots
from bench.plain_text import brief

STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 80em; padding: 0 1em; color: #202124; }
table { border-collapse: collapse; }
th, td { text-align: left; vertical-align: top; padding: .25em .7em .25em 0; border-bottom: 1px solid #0002; }
td.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code { font-size: 12px; color: #555; overflow-wrap: anywhere; }
small, summary { color: #666; } svg { max-width: 100%; height: auto; }
.met { color: #18794e; } .missed { color: #c62828; font-weight: 600; } .not { color: #8a6d00; }
.scroll { overflow-x: auto; }
"""
HOW = (
    "Each figure is the median over all rounds, with the lowest and the highest in brackets where they differ. Ratios "
    "are taken within a round, in which all kernels run in turn."
)
NOTHING = "-"


def spread(found: dict[str, float] | None, digits: int | None = None) -> str:
    """Return the median, with the spread if there is one."""
    if found is None:
        return NOTHING
    form = brief if digits is None else f"{{:.{digits}f}}".format
    median, least, most = (form(found[name]) for name in ("median", "least", "most"))
    return median if least == median == most else f"{median} <small>({least} to {most})</small>"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{heading}</th>" for heading in headings)
    body = "\n".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>'


def word(text: str) -> str:
    return f"<td>{escape(text)}</td>"


def figure(text: str) -> str:
    return f'<td class="n">{text}</td>'


def code(text: str) -> str:
    return f"<td><code>{escape(text)}</code></td>"


def goals(entries: Sequence[dict[str, Any]]) -> str:
    rows = []
    for goal in entries:
        verdict = f'<td class="{goal["verdict"].split()[0]}">{escape(goal["verdict"])}</td>'
        found = figure(spread(goal["found"], 3))
        rows.append([word(goal["text"]), figure(escape(goal["wish"])), found, verdict, code(goal["command"])])
    return table(("goal", "wanted", "found", "", "command"), rows)


def kernels(entries: Sequence[dict[str, Any]]) -> str:
    rows = []
    for kernel in entries:
        lacks = ", ".join(kernel["lacks"]) or "nothing"
        rows.append([word(kernel["label"]), word(f"Linux {kernel['version']}"), word(lacks), code(kernel["key"])])
    return table(("kernel", "source", "options it does not have", "mark"), rows)


def figures(case: dict[str, Any], rows: Sequence[dict[str, Any]]) -> str:
    ratios = list(dict.fromkeys(name for row in rows for name in row["ratios"]))
    lines = []
    for row in rows:
        values = [figure(spread(row["spread"].get(kernel))) for kernel in case["kernels"]]
        others = [figure(spread(row["ratios"].get(name), 3)) for name in ratios]
        what = [word(row["test"]), word(f"{row['figure']}, {row['unit']}")]
        lines.append([*what, *values, *others, code(row["command"])])
    return table(("test", "figure", *case["kernels"], *ratios, "command"), lines)


def gone(entries: Sequence[dict[str, str]]) -> str:
    """Return the tests without figures, grouped by reason."""
    reasons: dict[tuple[str, str, str], list[str]] = {}
    for entry in entries:
        reasons.setdefault((entry["kernel"], entry["verdict"], entry["reason"]), []).append(entry["test"])
    items = [
        f"<li>{escape(kernel)}: {escape(', '.join(tests))}: {escape(verdict)}: {escape(reason)}</li>"
        for (kernel, verdict, reason), tests in reasons.items()
    ]
    return f"<p>Not measured:</p><ul>{''.join(items)}</ul>" if items else ""


def section(case: dict[str, Any]) -> str:
    title = f'<h2 id="{escape(case["name"])}">{escape(case["title"])}</h2>'
    if not case["rounds"]:
        return f"{title}<p>Not measured yet: <code>{escape(case['command'])}</code></p>"
    first = [row for row in case["rows"] if row["first"]]
    more = [row for row in case["rows"] if not row["first"]]
    others = f"<details><summary>more figures</summary>{figures(case, more)}</details>" if more else ""
    swap = "" if case["thp_swap"] else ", CONFIG_THP_SWAP off"
    about = f"{case['name']}: {case['machine']}, rounds: {case['rounds']}{swap}"
    line = f"<p><small>{escape(about)}. <code>{escape(case['command_line'])}</code></small></p>"
    picture = plots.svg(plots.figure_of(case)) + plots.svg(plots.rounds_figure(case))
    return "\n".join([title, line, picture, figures(case, first), others, gone(case["missing"])])


def render(found: dict[str, Any]) -> str:
    title = "Stock kernel, kernel-thp and upstream, side by side"
    machine = found["machine"]
    made = f"{found['made']}, {machine['processors']} processors, {machine['qemu']}, {machine['compiler']}"
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{STYLE}</style></head><body>',
        f"<h1>{title}</h1><p>{escape(made)}</p>",
        *(f"<p>{escape(paragraph)}</p>" for paragraph in (*found["statement"], HOW)),
        "<h2>Goals</h2>",
        plots.svg(plots.goals_figure(found["goals"])),
        goals(found["goals"]),
        "<h2>Kernels</h2>",
        kernels(found["kernels"]),
        *map(section, found["cases"]),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"
