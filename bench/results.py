"""Keep what was measured, in a file for each round of a case: an interrupted run continues from there."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from bench.kernels import OUT
from scripts import files

RESULTS = OUT / "results"


class Figure(NamedTuple):
    value: float
    unit: str


# By test, then by name.
Figures = dict[str, dict[str, Figure]]


@dataclass(frozen=True)
class Boot:
    """What one kernel did: verdict and reason of each test, figures of those that passed."""

    key: str
    seconds: float
    verdicts: dict[str, tuple[str, str]]
    figures: Figures

    @property
    def whole(self) -> bool:
        """Tell whether every test gave its final verdict; a skip would be skipped again."""
        return all(verdict in ("pass", "skip") for verdict, _ in self.verdicts.values())


# The kernels that were measured in turn, by name.
Boots = dict[str, Boot]


def path(case: str, label: str) -> Path:
    return RESULTS / case / f"{label}.json"


def write(case: str, label: str, boots: Boots) -> None:
    file = path(case, label)
    file.parent.mkdir(parents=True, exist_ok=True)
    files.replace(file, json.dumps({name: asdict(boot) for name, boot in boots.items()}, indent=1) + "\n")


def read(case: str, label: str) -> Boots:
    file = path(case, label)
    if not file.exists():
        return {}
    return {name: _boot(entry) for name, entry in json.loads(file.read_text()).items()}


def _boot(entry: dict[str, Any]) -> Boot:
    verdicts = {test: (verdict, reason) for test, (verdict, reason) in entry["verdicts"].items()}
    figures = {
        test: {name: Figure(*figure) for name, figure in named.items()} for test, named in entry["figures"].items()
    }
    return Boot(entry["key"], entry["seconds"], verdicts, figures)
