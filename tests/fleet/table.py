"""The fleet as one table: what became of each host in each run, by the run's report and by the host's own word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

HEADINGS = ("run", "host", "result", "kernel", "default", "profile", "time", "failed in")
NOTHING = "-"


@dataclass(frozen=True)
class Row:
    """One host of one run. What it runs is what it said afterwards."""

    run: str
    host: str
    result: str
    kernel: str
    default: str
    profile: str
    time: str
    failed: str

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0f} s"


def default(told: str | None) -> str:
    """Return the kernel that the boot loader was told to start, from a pattern of its entries."""
    if told is None:
        return NOTHING
    return told.removeprefix("lab-").removesuffix("[+.][0-9c]*").removesuffix(".conf").removesuffix("*")


def failed_in(failed: dict[str, Any] | None) -> str:
    return NOTHING if failed is None else f"{failed['step']}: {failed['why'][:70]}"


def render(rows: Sequence[Row]) -> str:
    """Return the rows in columns; a run's name is told once."""
    cells = [HEADINGS]
    for number, row in enumerate(rows):
        told = "" if number and rows[number - 1].run == row.run else row.run
        cells.append((told, row.host, row.result, row.kernel, row.default, row.profile, row.time, row.failed))
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)
