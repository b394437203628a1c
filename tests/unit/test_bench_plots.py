"""The axes of the benchmark's plots."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from bench import plots
from bench.cases import CASES

KERNELS = ["stock", "thp"]


def row(test: str, figure: str, unit: str, *medians: float, most: float | None = None) -> dict[str, Any]:
    spread = {
        kernel: {"median": median, "least": median, "most": median if most is None else most}
        for kernel, median in zip(KERNELS, medians)
    }
    return {"test": test, "figure": figure, "unit": unit, "first": True, "spread": spread}


def axes(*rows: dict[str, Any]) -> list[Axes]:
    figures = list(dict.fromkeys(one["figure"] for one in rows))
    picture = plots.figure_of({"rows": list(rows), "figures": figures, "kernels": KERNELS})
    assert picture
    picture.canvas.draw()
    return [panel for panel in picture.axes if panel.get_visible()]


def labels(panel: Axes) -> list[str]:
    return [label.get_text() for label in panel.get_xticklabels()]


def test_all_zero_has_no_scale() -> None:
    (panel,) = axes(row("a", "killed", "count", 0, 0))
    assert panel.get_ylim() == (0, 1) and list(panel.get_yticks()) == [0]


def test_an_event_of_one_round_is_visible() -> None:
    (panel,) = axes(row("a", "killed", "count", 0, 0, most=40))
    assert panel.get_ylim()[1] > 40 and len(panel.get_yticks()) > 1


def test_small_and_large_are_visible_beside_zero() -> None:
    (panel,) = axes(row("a", "stored", "bytes", 1e3, 1e6), row("b", "stored", "bytes", 0, 1e6))
    assert panel.get_yscale() == "symlog" and panel.get_ylim()[0] <= 0
    (panel,) = axes(row("a", "stored", "bytes", 1e3, 1e6))
    assert panel.get_yscale() == "log"


def test_counts_have_whole_ticks() -> None:
    (panel,) = axes(row("a", "given_back", "thps", 1, 2))
    assert all(tick == int(tick) for tick in panel.get_yticks())


def test_panels_of_a_figure_share_the_axis_and_the_order_of_tests() -> None:
    left, right = axes(
        row("python.always", "rss", "bytes", 5, 6),
        row("mix.always", "rss", "bytes", 7, 100),
        row("mix.tight", "rss", "bytes", 1, 2),
    )
    assert left.get_ylim() == right.get_ylim()
    assert labels(left) == labels(right) == ["python", "mix"]


def test_figures_of_one_test_stand_side_by_side() -> None:
    panels = axes(row("a", "rss", "bytes", 1, 2), row("a", "killed", "count", 0, 1))
    assert len({round(panel.get_position().y0, 3) for panel in panels}) == 1


def test_rounds_are_drawn_by_their_numbers() -> None:
    rows = [row("a", f"round_{number}", "thps", number, 2 * number) for number in (10, 1, 2)]
    picture = plots.rounds_figure({"rows": rows, "kernels": KERNELS})
    assert picture
    for line, factor in zip(picture.axes[0].get_lines(), (1, 2)):
        assert list(line.get_xdata()) == [1, 2, 10] and list(line.get_ydata()) == [factor, 2 * factor, 10 * factor]
    assert plots.rounds_figure({"rows": [row("a", "rss", "bytes", 1, 2)], "kernels": KERNELS}) is None


def test_every_kernel_of_a_case_has_a_colour_of_its_own() -> None:
    assert {kernel for case in CASES for kernel in case.kernels} <= plots.COLOURS.keys()
    assert len(set(plots.COLOURS.values())) == len(plots.COLOURS)
