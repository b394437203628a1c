"""What every JUnit suite of selftests has in common, the gate's and thp-validate's."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from .judge import Outcome
from .ktap import SKIP

TOTALS = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def add(suite: ET.Element, test: Outcome) -> None:
    case = ET.SubElement(suite, "testcase", classname=test.program or "missing", name=test.name)
    case.set("time", f"{test.seconds:.1f}")
    if not test.accepted:
        ET.SubElement(case, "failure", message=f"{test.verdict}: {test.reason}")
    elif test.verdict == SKIP:
        ET.SubElement(case, "skipped", message=test.reason)


def finished(suite: ET.Element) -> str:
    """Return the file of a suite that is complete, with its totals."""
    suite.set("tests", str(len(suite)))
    for total, tag in TOTALS.items():
        suite.set(total, str(len(suite.findall(f"*/{tag}"))))
    return ET.tostring(suite, encoding="unicode") + "\n"
