"""A run as junit.xml, for CI: one test for each host."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import summary
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import BAD

# Control characters, which no XML can hold.
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def render(run: dict[str, Any]) -> str:
    """Return the suite of a run; a host that was not reached, or that the run has not finished with, is skipped."""
    suite = ET.Element("testsuite", name=f"kernel_thp.fleet.{run['playbook']}", timestamp=run["began"])
    suite.set("tests", str(len(run["hosts"])))
    failed = sum(host["result"] in BAD for host in run["hosts"])
    skipped = sum(host["result"] in summary.OPEN for host in run["hosts"])
    suite.set("failures", str(failed))
    suite.set("skipped", str(skipped))
    for host in run["hosts"]:
        case = ET.SubElement(suite, "testcase", classname=suite.get("name", ""), name=_text(host["host"]))
        case.set("time", str(host["seconds"] or 0))
        if host["result"] in BAD:
            ET.SubElement(case, "failure", message=_text(summary.sentence(host)))
        elif host["result"] in summary.OPEN:
            ET.SubElement(case, "skipped", message=host["result"])
    return ET.tostring(suite, encoding="unicode") + "\n"


def _text(value: str) -> str:
    return UNPRINTABLE.sub("?", value)
