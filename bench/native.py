"""The case that is measured on this machine itself: the check for zeros, by zero_check.py."""

from __future__ import annotations

import hashlib
import time

from bench import binaries, kernels, zero_check
from bench.cases import Case
from bench.results import Boot, Boots, Figure, Figures


def key() -> str:
    """Name what is measured: the function in the tree, the program around it, and what both are compiled by."""
    program = binaries.digest(sorted(kernels.HERE.glob("zero_check*")))
    mark = kernels.SOURCES[kernels.THP]().mark
    return hashlib.sha256(f"{program}{mark}{kernels.compiler()}".encode()).hexdigest()[:16]


def measure(case: Case) -> Boots:
    """Return the rates of each check, in the form of kernels that were booted."""
    began = time.monotonic()
    source = kernels.SOURCES[kernels.THP]()
    source.prepare()
    rates = zero_check.measure(source.folder)
    seconds = (time.monotonic() - began) / len(case.kernels)
    found: dict[str, Figures] = {check: {} for check in case.kernels}
    for kib, checks in rates.items():
        test = f"{kib}_KiB"
        for check, rate in checks.items():
            if test in case.tests and check in found:
                found[check][test] = {"rate": Figure(rate, "GB/s")}
    return {
        check: Boot(key(), seconds, dict.fromkeys(figures, ("pass", "")), figures) for check, figures in found.items()
    }
