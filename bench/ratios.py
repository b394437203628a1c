"""Ratios between kernels: taken within a round, or of the least over all rounds, each with its spread."""

from __future__ import annotations

import contextlib
import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.results import Boots, Figure, Figures

PAGE_BYTES = 4096
# The spread of a ratio of least times shows what it would be without so many of the rounds.
LEFT_OUT = 2


@dataclass(frozen=True)
class Spread:
    median: float
    least: float
    most: float

    def over(self, other: float) -> Spread:
        return Spread(self.median / other, self.least / other, self.most / other)


def spread(values: Sequence[float]) -> Spread | None:
    return Spread(statistics.median(values), min(values), max(values)) if values else None


@dataclass(frozen=True)
class Row:
    """One figure of one test: the values of each kernel by round, None where it was not measured."""

    case: str
    test: str
    figure: str
    unit: str
    values: Mapping[str, Sequence[float | None]]

    def of(self, kernel: str) -> Spread | None:
        return spread([value for value in self.values.get(kernel, ()) if value is not None])

    def ratio(self, kernel: str, over: str) -> Spread | None:
        """Return the ratio of two kernels. Rounds in which one has no value, or `over` has zero, do not count."""
        pairs = zip(self.values.get(kernel, ()), self.values.get(over, ()))
        return spread([value / other for value, other in pairs if value is not None and other])


def of_least(rounds: Sequence[Sequence[tuple[float, float]]]) -> Spread:
    """Return the ratio of the least times of two kernels; the geometric mean of the tests' ratios.

    Each round has a pair of times for each test. Whatever else a machine does only adds to a time, so the least one of
    several rounds is the best known.
    """

    def ratio(kept: Sequence[Sequence[tuple[float, float]]]) -> float:
        each = (list(zip(*pairs)) for pairs in zip(*kept))
        return statistics.geometric_mean(min(times) / min(others) for times, others in each)

    fewer = itertools.combinations(rounds, max(1, len(rounds) - LEFT_OUT))
    without = [ratio(kept) for kept in fewer]
    return Spread(ratio(rounds), min(without), max(without))


def fault_net(named: Mapping[str, Figure]) -> Figure:
    """Return the cost of a fault less that of clearing, which is most of it and the same on every kernel."""
    return Figure(named["fault"].value - named["clear"].value, named["fault"].unit)


def freed_by_cpu(named: Mapping[str, Figure]) -> Figure:
    """Return how much memory the kernel gives back per second of processor time."""
    seconds = named["per_thp_cpu"].value * named["given_back"].value / 1e9
    return Figure(named["freed"].value * PAGE_BYTES / seconds, "bytes/s")


DERIVED = {"fault_net": fault_net, "freed_by_cpu": freed_by_cpu}


def over_zram(figures: Figures, test: str) -> Figure:
    """Return how many times as long as on zram a test took on the disk, until all was written."""
    zram = figures[f"{test.rpartition('.')[0]}.zram"]["pageout_time"]
    return Figure(figures[test]["on_disk_time"].value / zram.value, "share")


def with_derived(figures: Figures) -> Figures:
    """Return the figures, and those derived from them."""
    found = {test: dict(named) for test, named in figures.items()}
    for test, named in found.items():
        for name, derive in DERIVED.items():
            with contextlib.suppress(KeyError, ZeroDivisionError):
                named[name] = derive(named)
        with contextlib.suppress(KeyError, ZeroDivisionError):
            named["over_zram"] = over_zram(figures, test)
    return found


def rows(case: str, rounds: Sequence[Boots], kernels: Iterable[str]) -> list[Row]:
    """Return all figures of a case, in the order in which they were first printed."""
    figures = [{kernel: with_derived(boot.figures) for kernel, boot in boots.items()} for boots in rounds]
    units: dict[tuple[str, str], str] = {}
    for boots in figures:
        for tests in boots.values():
            for test, named in tests.items():
                units.update({(test, name): figure.unit for name, figure in named.items()})
    order = list(kernels)
    found = []
    for (test, name), unit in units.items():
        values = {kernel: [_value(boots.get(kernel, {}), test, name) for boots in figures] for kernel in order}
        found.append(Row(case, test, name, unit, values))
    return found


def _value(figures: Figures, test: str, name: str) -> float | None:
    figure = figures.get(test, {}).get(name)
    return None if figure is None else figure.value
