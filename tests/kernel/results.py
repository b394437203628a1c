"""The results of a gate run, written as results.json, JUnit and a table."""

from __future__ import annotations

import dataclasses
import json
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from scripts import files
from scripts.console import UserError
from tools.thp_validate import junit
from tools.thp_validate.outcomes import Outcome


@dataclass
class Step:
    name: str
    seconds: float
    detail: str
    ok: bool


@dataclass
class Results:
    subject: str = ""
    accelerator: str = ""
    uname: str = ""
    nevra: str = ""
    stock: str = ""
    steps: list[Step] = field(default_factory=list)
    tests: list[Outcome] = field(default_factory=list)
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    complete: bool = False

    @property
    def verdict(self) -> str:
        return "pass" if self.complete and not self.reasons else "fail"

    @contextmanager
    def refused(self) -> Iterator[None]:
        """Make a reason of an error, so that a run goes on and is written down."""
        try:
            yield
        except UserError as error:
            self.reasons.append(str(error))

    @classmethod
    def read(cls, path: Path) -> Results:
        data = json.loads(path.read_text())
        del data["verdict"]
        data["steps"] = [Step(**step) for step in data["steps"]]
        data["tests"] = [Outcome(**test) for test in data["tests"]]
        return cls(**data)

    def write(self, directory: Path) -> None:
        """Write both files; each appears complete or not at all."""
        data = {"verdict": self.verdict, **dataclasses.asdict(self)}
        files.replace(directory / "results.json", json.dumps(data, indent=2) + "\n")
        files.replace(directory / "junit.xml", self._junit())

    def _junit(self) -> str:
        suite = ET.Element("testsuite", name="kernel-thp gate")
        for step in self.steps:
            case = ET.SubElement(suite, "testcase", classname="gate", name=step.name, time=f"{step.seconds:.1f}")
            if not step.ok:
                ET.SubElement(case, "failure", message=step.detail)
        for test in self.tests:
            junit.add(suite, test)
        return junit.finished(suite)

    def table(self) -> str:
        names = [step.name for step in self.steps] + [test.name for test in self.tests]
        width = max(len(name) for name in [*names, "step"])
        lines = [f"{'step':<{width}}  {'result':<8} {'time':>7}"]
        for step in self.steps:
            word = "ok" if step.ok else "FAILED"
            lines.append(f"{step.name:<{width}}  {word:<8} {step.seconds:6.1f}s  {step.detail}".rstrip())
        lines += ["", f"{'test':<{width}}  {'verdict':<8} {'time':>7}"]
        reached = any(test.program for test in self.tests)
        if not reached:
            lines.append(f"none of the {len(self.tests)} required tests was reached")
        for test in self.tests if reached else []:
            mark = "" if test.accepted else "  <- not accepted"
            why = f"  {test.reason}" if test.reason else ""
            lines.append(f"{test.name:<{width}}  {test.verdict:<8} {test.seconds:6.1f}s{why}{mark}")
        lines += ["", f"OOM experiment on the stock kernel {self.stock}:", *(f"  {line}" for line in self.before)]
        lines += [f"OOM experiment on kernel-thp {self.uname}:", *(f"  {line}" for line in self.after), ""]
        lines += [f"reason: {reason}" for reason in self.reasons]
        accepted = sum(test.accepted for test in self.tests)
        total = sum(step.seconds for step in self.steps)
        lines.append(
            f"gate: {self.verdict}: {accepted} of {len(self.tests)} tests accepted, {total:.0f} s, {self.accelerator}"
        )
        return "\n".join(lines)
