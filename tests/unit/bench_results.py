"""Made-up results of the benchmark, for tests of the report and the baseline."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Callable, Collection

from bench.cases import CASES, COUNT, Case
from bench.kernels import ADVISED, ALWAYS, PACKAGED, THP
from bench.results import Boot, Boots, Figure

ABOUT = {"made": "now", "machine": {"processors": 2, "qemu": "qemu 1", "compiler": "gcc 1"}}

OURS = (THP, ALWAYS, ADVISED, PACKAGED)
UNITS = {"_time": "s", "_cpu": "ns", "free": "ns", "fault": "ns", "clear": "ns", "written": "pages", "stored": "bytes"}


def chance(*words: str) -> float:
    """Return a deterministic number from 0 to 1."""
    return (zlib.crc32("\n".join(words).encode()) % 1000) / 1000


def unit(name: str) -> str:
    return next((unit for ending, unit in UNITS.items() if name.endswith(ending)), "count")


def figure(case: Case, kernel: str, number: int, test: str, name: str) -> Figure:
    if name == "survived":
        return Figure(float(kernel != "stock"), "count")
    if name == "clear":  # A part of the fault.
        return Figure(50, "ns")
    scatters = case.machine != COUNT and unit(name) in ("s", "ns")
    scatter = 0.1 * chance(kernel, test, str(number)) if scatters else 0
    return Figure((100 + 900 * chance(case.name, test, name, kernel)) * (1 + scatter), unit(name))


def boot(case: Case, kernel: str, number: int) -> Boot:
    names = case.figures or ("clear_huge_page", "page_remove_rmap")
    figures = {test: {name: figure(case, kernel, number, test, name) for name in names} for test in case.tests}
    return Boot("key", 10.0, dict.fromkeys(case.tests, ("pass", "")), figures)


def rounds(case: Case) -> list[Boots]:
    return [{kernel: boot(case, kernel, number) for kernel in case.kernels} for number in range(case.rounds)]


def by_name(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def slowed(factor: float, tests: Collection[str] = (), figures: Collection[str] = ()) -> Callable[[Case], list[Boots]]:
    """Return the rounds of a kernel-thp that needs more by a factor: of everything, or of these figures and tests."""

    def changed(test: str, name: str, figure: Figure) -> Figure:
        chosen = (not tests or test in tests) and (not figures or name in figures)
        return figure._replace(value=figure.value * factor) if chosen else figure

    def slower(boot: Boot) -> Boot:
        every = boot.figures.items()
        found = {test: {name: changed(test, name, one) for name, one in named.items()} for test, named in every}
        return dataclasses.replace(boot, figures=found)

    def boots_of(case: Case) -> list[Boots]:
        return [
            {kernel: slower(boot) if kernel in OURS else boot for kernel, boot in boots.items()}
            for boots in rounds(case)
        ]

    return boots_of
