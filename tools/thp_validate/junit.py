"""JUnit output of selftests, shared by the gate and thp-validate."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from .ktap import SKIP
from .outcomes import Outcome

TOTALS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def add(suite: ET.Element, test: Outcome) -> None:
    case = ET.SubElement(suite, "testcase", classname=test.program or "missing", name=test.name)
    case.set("time", f"{test.seconds:.1f}")
    if not test.accepted:
        ET.SubElement(case, "failure", message=f"{test.verdict}: {test.reason}")
    elif test.verdict == SKIP:
        ET.SubElement(case, "skipped", message=test.reason)


def finished(suite: ET.Element) -> str:
    """Return the content of the JUnit file of a complete suite, with its totals."""
    suite.set("tests", str(len(suite)))
    for total, tag in TOTALS.items():
        suite.set(total, str(len(suite.findall(f"*/{tag}"))))
    return ET.tostring(suite, encoding="unicode") + "\n"
