"""The report as text: for a terminal, and as a table of goals for the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.goals import UNKNOWN


def brief(number: float) -> str:
    """Return a number with four significant digits; a large one with thousands separators."""
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def spread(found: Mapping[str, float] | None) -> str:
    if found is None:
        return "-"
    median, least, most = (f"{found[name]:.3f}" for name in ("median", "least", "most"))
    return median if least == most else f"{median} ({least} to {most})"


def terminal(report: Mapping[str, Any]) -> str:
    lines: list[str] = []
    for case in report["cases"]:
        lines += ["", f"{case['title']} ({case['name']}, rounds: {case['rounds']})"]
        for row in [row for row in case["rows"] if row["first"]]:
            of = row["spread"].items()
            medians = ", ".join(f"{kernel} {brief(found['median']) if found else '-'}" for kernel, found in of)
            ratios = "".join(f"; {name} {spread(found)}" for name, found in row["ratios"].items())
            lines.append(f"  {row['test']:20} {row['figure']:16} {medians} {row['unit']}{ratios}")
        for gone in case["missing"]:
            lines.append(f"  {gone['test']} on {gone['kernel']}: {gone['verdict']}: {gone['reason']}")
    lines.append("")
    for goal in report["goals"]:
        if goal["verdict"] != UNKNOWN:
            lines.append(f"{goal['verdict']:7} {goal['text']}: {spread(goal['found'])}, wanted {goal['wish']}")
    return "\n".join(lines)


def markdown(report: Mapping[str, Any]) -> str:
    lines = ["| goal | wanted | found | command |", "|---|---|---|---|"]
    for goal in report["goals"]:
        found = f"{spread(goal['found'])}, {goal['verdict']}" if goal["found"] else goal["verdict"]
        lines.append(f"| {goal['text']} | {goal['wish']} | {found} | `{goal['command']}` |")
    return "\n".join(lines) + "\n"
