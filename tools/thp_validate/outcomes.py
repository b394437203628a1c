"""Evaluate a selftest run: every required test must have run and passed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from .errors import UserError
from .ktap import FAIL, PASS, SKIP, Report

MISSING = "missing"
VERDICTS = (PASS, FAIL, SKIP, MISSING)
MAY_SKIP = re.compile(r"may-skip:\s*(.+)")


@dataclass(frozen=True)
class Required:
    name: str
    may_skip: str = ""


@dataclass(frozen=True)
class Outcome:
    """The verdict of one test, whether the gate accepts it, and why."""

    name: str
    program: Annotated[str, "the program of the selftests that reported it, empty for a missing test"]
    verdict: Annotated[str, "missing: required, but no program reported it", VERDICTS]
    accepted: bool
    seconds: float
    reason: str


def parse_required(text: str, origin: str) -> list[Required]:
    """Read one test name per line; `# may-skip: reason` after a name allows that test to be skipped."""
    required: list[Required] = []
    for number, line in enumerate(text.splitlines(), 1):
        name, _, comment = line.partition("#")
        name = name.strip()
        if not name:
            continue
        allowance = MAY_SKIP.search(comment)
        if "may-skip" in comment and allowance is None:
            raise UserError(f"{origin}:{number}: may-skip without a reason", "write `may-skip: reason`")
        if name in (known.name for known in required):
            raise UserError(f"{origin}:{number}: `{name}` is listed twice", "remove one of the lines")
        required.append(Required(name, allowance.group(1).strip() if allowance else ""))
    if not required:
        raise UserError(f"{origin} requires no test", "list the tests that must pass")
    return required


def evaluate(required: Sequence[Required], reports: Mapping[str, Report]) -> list[Outcome]:
    """Return an outcome for each test that ran or should have: the required ones in their order, then the others."""
    ran = {leaf.name: (program, leaf) for program, report in reports.items() for leaf in report.leaves()}
    outcomes = []
    for want in required:
        if want.name not in ran:
            outcomes.append(Outcome(want.name, "", MISSING, False, 0.0, "required, but no program reported it"))
            continue
        program, test = ran.pop(want.name)
        accepted = test.verdict == PASS or (test.verdict == SKIP and bool(want.may_skip))
        reason = test.reason
        if test.verdict == SKIP:
            reason += f" (accepted: {want.may_skip})" if want.may_skip else " (may not be skipped)"
        outcomes.append(Outcome(want.name, program, test.verdict, accepted, test.seconds, reason))
    for name, (program, test) in ran.items():
        reason = f"{test.reason} (not in required.txt)".strip()
        outcomes.append(Outcome(name, program, test.verdict, test.verdict != FAIL, test.seconds, reason))
    return outcomes


def reasons(outcomes: Sequence[Outcome], reports: Mapping[str, Report]) -> list[str]:
    """Return every reason to reject the run; an empty list is a pass."""
    found = [f"{outcome.name}: {outcome.verdict}: {outcome.reason}" for outcome in outcomes if not outcome.accepted]
    found += [f"{program}: {problem}" for program, report in reports.items() for problem in report.problems]
    return found
