"""Parse KTAP 1 and TAP 13/14 output strictly: missing, truncated or miscounted tests are a problem, never a pass."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

VERSION = re.compile(r"^K?TAP version (\d+)\s*$")
PLAN = re.compile(r"^1\.\.(\d+)\s*(?:# *SKIP\b[: ]*(.*))?$", re.IGNORECASE)
RESULT = re.compile(r"^(not )?ok (\d+)(?:\s+(?:- )?(.*))?$")
# The directives of KTAP as test programs print them, and the exit code that kselftest's runner adds.
DIRECTIVE = re.compile(r"(?:^|\s)# *(?:(SKIP|TODO|XFAIL|TIMEOUT|ERROR)\b[: ]*(.*)|(exit=\d+.*))$", re.IGNORECASE)
BAIL = re.compile(r"^Bail out!\s*(.*)$")
KNOWN_VERSIONS = {"KTAP version 1", "TAP version 13", "TAP version 14"}

PASS, FAIL, SKIP = "pass", "fail", "skip"


@dataclass
class Test:
    name: str
    verdict: str
    reason: str = ""
    seconds: float = 0.0
    subtests: list[Test] = field(default_factory=list)

    def leaves(self) -> list[Test]:
        return [leaf for test in self.subtests for leaf in test.leaves()] if self.subtests else [self]


@dataclass
class Report:
    tests: list[Test] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def leaves(self) -> list[Test]:
        return [leaf for test in self.tests for leaf in test.leaves()]


@dataclass
class _Level:
    depth: int
    versioned: bool = False
    plan: int | None = None
    tests: list[Test] = field(default_factory=list)


def _unnest(line: str) -> tuple[int, str]:
    """Return the nesting depth of a line and its text: KTAP indents by two spaces, kselftest's runner by `# `."""
    depth = 0
    while line.startswith(("# ", "  ")):
        line = line[2:]
        depth += 1
    return depth, line


class _Parser:
    def __init__(self) -> None:
        self.report = Report()
        self.levels: list[_Level] = []
        self.notes: list[str] = []
        self.last = 0.0

    def problem(self, text: str) -> None:
        self.report.problems.append(text)

    def level(self, depth: int) -> _Level:
        """Return the open level of this depth; open it if necessary."""
        if not self.levels or self.levels[-1].depth < depth:
            self.levels.append(_Level(depth))
        return self.levels[-1]

    def close(self, depth: int) -> list[Test]:
        """Close all levels deeper than this, and return the tests of the last one closed."""
        tests: list[Test] = []
        while self.levels and self.levels[-1].depth > depth:
            level = self.levels.pop()
            if tests:
                self.problem(f"{len(tests)} subtest(s) after `{tests[0].name}` belong to no test: output cut off?")
                self.report.tests += tests
            tests = level.tests
            self.check(level)
        return tests

    def check(self, level: _Level) -> None:
        where = f"at nesting depth {level.depth}"
        if not level.versioned:
            self.problem(f"no version line {where}")
        if level.plan is None:
            self.problem(f"no plan (1..N) {where}")
        elif level.plan != len(level.tests):
            self.problem(f"{level.plan} test(s) planned, {len(level.tests)} reported {where}")

    def line(self, raw: str, now: float) -> None:
        depth, text = _unnest(raw.rstrip())
        if VERSION.match(text):
            self.version(depth, text)
        elif plan := PLAN.match(text):
            self.plan(depth, int(plan.group(1)), plan.group(2))
        elif result := RESULT.match(text):
            self.result(depth, bool(result.group(1)), int(result.group(2)), result.group(3) or "", now)
        elif bail := BAIL.match(text):
            self.problem(f"bail out: {bail.group(1) or 'no reason given'}")
        elif text.strip(" #"):
            self.notes.append(text.strip())

    def version(self, depth: int, text: str) -> None:
        if text.strip() not in KNOWN_VERSIONS:
            self.problem(f"unknown format `{text.strip()}`")
        if self.levels and self.levels[-1].depth >= depth:
            self.problem(f"a second `{text.strip()}` before the tests of the first one ended")
            self.report.tests += self.close(depth - 1)
        self.level(depth).versioned = True

    def plan(self, depth: int, count: int, skipped: str | None) -> None:
        self.notes.clear()
        level = self.level(depth)
        if level.depth != depth:
            self.problem(f"plan 1..{count} inside deeper tests")
        elif level.plan is not None:
            self.problem(f"a second plan 1..{count} at nesting depth {depth}")
        level.plan = count
        if count == 0:
            self.problem(f"nothing was run: {skipped or 'a plan of 0 tests, no reason given'}")

    def result(self, depth: int, failed: bool, number: int, rest: str, now: float) -> None:
        subtests = self.close(depth)
        level = self.level(depth)
        directive = DIRECTIVE.search(rest)
        name = (rest[: directive.start()] if directive else rest).strip() or f"(unnamed test {number})"
        word = (directive.group(1) or "").upper() if directive else ""
        reason = ((directive.group(2) or directive.group(3) or "").strip() or word) if directive else ""
        verdict = FAIL if failed else SKIP if word in ("SKIP", "XFAIL") else PASS
        if number != len(level.tests) + 1:
            self.problem(f"test number {number} where {len(level.tests) + 1} was due: `{name}`")
        if verdict == FAIL and not reason and not subtests:
            reason = self.why(name)
        self.notes.clear()
        test = Test(name, verdict, reason, now - self.last, subtests)
        self.last = now
        bad = [leaf.name for leaf in subtests if leaf.verdict == FAIL]
        if bad and verdict != FAIL:
            self.problem(f"`{name}` says {verdict}, but its subtest `{bad[0]}` failed")
        if verdict == FAIL and subtests and not bad:
            self.problem(f"`{name}` failed though none of its subtests did ({reason or 'no reason given'})")
        level.tests.append(test)

    def why(self, name: str) -> str:
        """Return why a test failed: the message that starts with its name if there is one, else the last message."""
        own = [note[len(name) + 2 :] for note in self.notes if note.startswith(f"{name}: ")]
        return own[0] if own else self.notes[-1] if self.notes else ""

    def finish(self) -> Report:
        if not self.levels:
            self.problem("no test output at all")
        self.report.tests += self.close(-1)
        counts = Counter(leaf.name for leaf in self.report.leaves())
        for name in sorted(name for name, count in counts.items() if count > 1):
            self.problem(f"`{name}` was reported more than once")
        return self.report


def parse(lines: Sequence[str], stamps: Sequence[float] | None = None) -> Report:
    """Parse a complete output. With a time stamp per line, each test gets the time since the previous result."""
    parser = _Parser()
    for line, now in zip(lines, stamps or [0.0] * len(lines)):
        parser.line(line, now)
    return parser.finish()
