"""The fleet as one table: how each host ended in each run, from the report and from the host itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

HEADINGS = ("run", "host", "result", "kernel", "default", "profile", "time", "failed in")
NOTHING = "-"


@dataclass(frozen=True)
class Row:
    """One host of one run. Kernel, default and profile are from the host itself, after the run."""

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


def default(pattern: str | None) -> str:
    """Return the kernel that the boot loader starts by default, from a pattern of its entries."""
    if pattern is None:
        return NOTHING
    return pattern.removeprefix("lab-").partition("[")[0].removesuffix(".conf").removesuffix("*")


def failed_in(failed: dict[str, Any] | None) -> str:
    return NOTHING if failed is None else f"{failed['step']}: {failed['why'][:70]}"


def render(rows: Sequence[Row]) -> str:
    """Return the rows in columns; the name of a run appears once."""
    cells = [HEADINGS]
    for number, row in enumerate(rows):
        run = "" if number and rows[number - 1].run == row.run else row.run
        cells.append((run, row.host, row.result, row.kernel, row.default, row.profile, row.time, row.failed))
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADINGS))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)
