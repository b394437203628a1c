"""Plots for the report's page: a row of panels for each figure, with a bar and its spread for each kernel."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, MaxNLocator

# Distinguishable by colour-blind readers, and in grey.
COLOURS = {
    "stock": "#9aa0a6",
    "thp": "#1769aa",
    "thp-defrag": "#0b3c66",
    "thp-madvise": "#a58fc9",
    "thp-always": "#5a3d8a",
    "upstream": "#e08e0b",
    "newest": "#f2c879",
    "newest-defrag": "#8a4f00",
    "upto-unlocked-split-queue": "#6f8f6b",
    "upto-defrag-mode-defrag": "#d5e4f2",
    "upto-wake-for-blocks-defrag": "#aecbe6",
    "upto-block-watermark-defrag": "#84afd8",
    "upto-ignore-skip-hints-defrag": "#5690c8",
}
# Above this ratio, small bars would vanish beside large ones.
SPREAD_OF_A_PLAIN_AXIS = 30
ROW_HEIGHT, WIDTH = 2.3, 11.0
# A row of panels leaves room for at least this many tests, which limits the width of a bar.
LEAST_TESTS = 6
SIDE_BY_SIDE = 3
# What a test that works in rounds calls the figure of each.
ROUND = "round_"
# Units without fractions.
WHOLE = ("count", "instructions", "ns", "pages", "samples", "thps")
SETTINGS = {
    "svg.fonttype": "none",
    # Deterministic names inside the picture.
    "svg.hashsalt": "kernel-thp",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
Rows = Sequence[dict[str, Any]]


def kind(test: str) -> str:
    """Return the part of a test's name after its last dot: swap device, mode, or number of processes."""
    return test.rpartition(".")[2] if "." in test else ""


def bare(test: str) -> str:
    return test.rpartition(".")[0] or test


def figure_of(case: dict[str, Any]) -> Figure | None:
    """Return the picture of a case, or None if nothing was measured."""
    rows = [row for row in case["rows"] if row["first"] and any(row["spread"].values())]
    names = [name for name in case["figures"] if any(row["figure"] == name for row in rows)]
    kinds = list(dict.fromkeys(kind(row["test"]) for row in rows))
    order = list(dict.fromkeys(bare(row["test"]) for row in rows))
    if not names:
        return None
    # Figures of few tests and one kind fit side by side.
    few = len(kinds) == 1 and len({row["test"] for row in rows}) <= LEAST_TESTS // SIDE_BY_SIDE
    columns = min(len(names), SIDE_BY_SIDE) if few else len(kinds)
    lines = math.ceil(len(names) * len(kinds) / columns)
    with matplotlib.rc_context(SETTINGS):
        picture = Figure(figsize=(WIDTH, ROW_HEIGHT * lines + 0.5), layout="constrained")
        grid = picture.subplots(lines, columns, squeeze=False, sharey=False if few else "row")
        panels = iter(grid.flat)
        for name in names:
            own = [row for row in rows if row["figure"] == name]
            tests = [test for test in order if any(bare(row["test"]) == test for row in own)]
            line = [next(panels) for _ in kinds]
            for panel, one in zip(line, kinds):
                places = {tests.index(bare(row["test"])): row for row in own if kind(row["test"]) == one}
                draw(panel, places, case["kernels"])
                label(panel, tests, max(len(tests), LEAST_TESTS // columns))
                panel.set_title(f"{name}, {one}" if one else name, loc="left", fontsize=9)
            scale(line[0], own)
        for panel in panels:
            panel.set_visible(False)
        # For all kernels: one that a panel lacks may be in another.
        handles = [Patch(color=COLOURS[name], label=name) for name in case["kernels"]]
        picture.legend(handles=handles, loc="outside upper right", ncols=len(handles), frameon=False)
    return picture


def draw(panel: Axes, places: dict[int, dict[str, Any]], kernels: Sequence[str]) -> None:
    """Draw a group of bars for each test at its place, one for each kernel that was measured."""
    width = 0.8 / len(kernels)
    for number, kernel in enumerate(kernels):
        present = [(place, row["spread"][kernel]) for place, row in places.items() if row["spread"].get(kernel)]
        at = [place + (number - (len(kernels) - 1) / 2) * width for place, _ in present]
        heights = [spread["median"] for _, spread in present]
        below = [spread["median"] - spread["least"] for _, spread in present]
        above = [spread["most"] - spread["median"] for _, spread in present]
        panel.bar(at, heights, width, color=COLOURS[kernel])
        panel.errorbar(at, heights, [below, above], fmt="none", ecolor="#202124", elinewidth=0.8, capsize=1.5)


def label(panel: Axes, tests: Sequence[str], room: int) -> None:
    many = len(tests) > 4
    panel.set_xlim(-0.5, room - 0.5)
    panel.set_xticks(range(len(tests)), tests, ha="right" if many else "center")
    panel.tick_params(axis="x", labelrotation=30 if many else 0, labelsize=8)
    panel.grid(axis="y", color="#00000018")
    panel.set_axisbelow(True)


def scale(panel: Axes, rows: Rows) -> None:
    """Set the axis of a figure, which all of its panels share."""
    unit = rows[0]["unit"]
    spreads = [spread for row in rows for spread in row["spread"].values() if spread]
    medians = [spread["median"] for spread in spreads]
    above_zero = [median for median in medians if median > 0]
    panel.set_ylabel(unit)
    if all(spread["least"] == spread["most"] == 0 for spread in spreads):
        panel.set_ylim(0, 1)
        panel.set_yticks([0])
    elif above_zero and max(above_zero) > SPREAD_OF_A_PLAIN_AXIS * min(above_zero):
        # A symmetric logarithm has room for zero.
        if min(medians) > 0:
            panel.set_yscale("log")
        else:
            panel.set_yscale("symlog", linthresh=min(above_zero))
    elif unit in WHOLE:
        panel.yaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
    panel.yaxis.set_major_formatter("{x:g}" if unit == "share" else EngFormatter(sep=""))


def rounds_figure(case: dict[str, Any]) -> Figure | None:
    """Return the picture of the figures `round_1`, `round_2` and so on over their numbers, or None without any."""
    rows = {int(row["figure"][len(ROUND) :]): row for row in case["rows"] if row["figure"].startswith(ROUND)}
    if not rows:
        return None
    with matplotlib.rc_context(SETTINGS):
        picture = Figure(figsize=(WIDTH, ROW_HEIGHT + 0.5), layout="constrained")
        panel = picture.subplots()
        for kernel in case["kernels"]:
            spreads = {number: row["spread"][kernel] for number, row in sorted(rows.items()) if row["spread"][kernel]}
            medians = [spread["median"] for spread in spreads.values()]
            panel.plot(list(spreads), medians, color=COLOURS[kernel], label=kernel, marker=".")
        panel.set_ylim(bottom=0)
        panel.xaxis.set_major_locator(MaxNLocator(integer=True))
        panel.set_xlabel("round")
        panel.set_ylabel(rows[1]["unit"])
        panel.grid(axis="y", color="#00000018")
        picture.legend(loc="outside upper right", ncols=len(case["kernels"]), frameon=False)
    return picture


def goals_figure(goals: Rows) -> Figure | None:
    """Return the picture of all goals that are ratios, each divided by its goal."""
    known = [goal for goal in goals if (goal["over"] or goal["before"]) and goal["most"] and goal["found"]]
    if not known:
        return None
    with matplotlib.rc_context(SETTINGS):
        picture = Figure(figsize=(WIDTH, 0.3 * len(known) + 0.9), layout="constrained")
        panel = picture.subplots()
        for place, goal in enumerate(known):
            least, median, most = (goal["found"][name] / goal["most"] for name in ("least", "median", "most"))
            shade = COLOURS["thp"] if goal["verdict"] == "met" else COLOURS["upstream"]
            panel.plot([least, most], [place, place], color=shade, linewidth=2)
            panel.plot([median], [place], "o", color=shade)
        panel.axvline(1, color="#202124", linewidth=1)
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")
        panel.set_yticks(range(len(known)), [f"{goal['text']}: {goal['wish']}" for goal in known])
        panel.set_ylim(len(known) - 0.5, -0.5)
        panel.set_xlabel("ratio found, divided by the goal")
        panel.grid(axis="x", color="#00000018")
    return picture


def svg(picture: Figure | None) -> str:
    """Return a picture as part of a page, without references to anything outside."""
    if picture is None:
        return ""
    out = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context(SETTINGS):
        picture.savefig(out, format="svg", metadata=nothing)
    text = out.getvalue()
    return text[text.index("<svg") :]
