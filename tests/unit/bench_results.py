"""Made-up results of the benchmark, for tests of the report and the baseline."""

from __future__ import annotations

import zlib

from bench.cases import CASES, COUNT, Case
from bench.results import Boot, Boots, Figure

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
    scatter = 0 if case.machine == COUNT else 0.1 * chance(kernel, test, str(number))
    return Figure((100 + 900 * chance(case.name, test, name, kernel)) * (1 + scatter), unit(name))


def boot(case: Case, kernel: str, number: int) -> Boot:
    names = case.figures or ("clear_huge_page", "page_remove_rmap")
    figures = {test: {name: figure(case, kernel, number, test, name) for name in names} for test in case.tests}
    return Boot("key", 10.0, dict.fromkeys(case.tests, ("pass", "")), figures)


def rounds(case: Case) -> list[Boots]:
    return [{kernel: boot(case, kernel, number) for kernel in case.kernels} for number in range(case.rounds)]


def by_name(name: str) -> Case:
    return next(case for case in CASES if case.name == name)
