"""The forms of the result: the JSON object (thp-validate.schema.json), JUnit, and what a human reads."""

from __future__ import annotations

import dataclasses
import datetime
import xml.etree.ElementTree as ET
from typing import Any

from . import checks as judgement
from . import junit, taint
from .checks import Check
from .estimate import Estimate, Subject
from .facts import Facts

SCHEMA = 1
EXIT = {"supported": 0, "degraded": 1, "unsupported": 2}
ZERO_CHANGE = "(no counter changed)"


def as_json(facts: Facts, checks: list[Check]) -> dict[str, Any]:
    kernel = dataclasses.asdict(facts.kernel)
    known = taint.flags(facts.kernel.tainted or 0)
    kernel["taints"] = [{"letter": flag.letter, "meaning": flag.meaning} for flag in known]
    thp = dataclasses.asdict(facts.thp)
    thp["limit"] = facts.thp.limit
    tests = facts.selftests and {**dataclasses.asdict(facts.selftests), "accepted": facts.selftests.accepted}
    return {
        "schema": SCHEMA,
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "verdict": judgement.verdict(checks),
        "reasons": [
            {"id": check.id, "verdict": check.verdict, "what": check.what, "todo": check.todo}
            for check in checks
            if check.verdict != taint.OK
        ],
        "checks": {check.id: check.result for check in checks},
        "host": dataclasses.asdict(facts.host),
        "kernel": kernel,
        "thp": thp,
        "profile": dataclasses.asdict(facts.profile),
        "counters": facts.counters,
        "watch": facts.watch and dataclasses.asdict(facts.watch),
        "selftests": tests,
        "estimate": facts.estimate and dataclasses.asdict(facts.estimate),
        "unseen": facts.unseen,
    }


def as_junit(facts: Facts, checks: list[Check]) -> str:
    """Return a JUnit suite. What could not be seen is an error, not a skip: CI systems take a skip for good."""
    suite = ET.Element("testsuite", name="thp-validate", hostname=facts.host.name)
    for check in checks:
        case = ET.SubElement(suite, "testcase", classname="thp-validate", name=check.id)
        if check.result == judgement.UNSEEN:
            ET.SubElement(case, "error", message=f"{check.what}; {check.todo}")
        elif check.result == judgement.SKIPPED:
            ET.SubElement(case, "skipped", message=check.what)
        elif check.result != taint.OK:
            ET.SubElement(case, "failure", message=f"{check.result}: {check.what}; {check.todo}")
    for test in facts.selftests.tests if facts.selftests else []:
        junit.add(suite, test)
    return junit.finished(suite)


def as_text(facts: Facts, checks: list[Check]) -> str:
    kernel, thp = facts.kernel, facts.thp
    limit = "no shrinker" if thp.limit is None else f"limit {thp.limit} of {thp.subpages}"
    switched = "" if thp.shrink_underused is None else f", shrinker {'on' if thp.shrink_underused else 'off'}"
    lines = [
        f"host      {facts.host.name}" + (f", {facts.host.os}" if facts.host.os else ""),
        f"kernel    {kernel.uname}" + (f", {kernel.nevra}" if kernel.nevra else ""),
        f"THP       {thp.enabled_in_force or 'none'}{switched}, {limit}" if thp.present else "THP       none",
        f"profile   {' '.join(facts.profile.active) or 'none'}"
        + (", but tuned does not run" if facts.profile.installed and not facts.profile.running else ""),
    ]
    if facts.host.anon_huge_bytes is not None and facts.host.memory_bytes:
        lines.append(f"in use    {_mib(facts.host.anon_huge_bytes)} of {_mib(facts.host.memory_bytes)} as huge pages")
    for check in checks:
        if check.verdict != taint.OK:
            lines += ["", f"{check.result:<12}{check.id}: {check.what}", f"{'to do':<12}{check.todo}"]
    if facts.watch:
        changed = {name: value for name, value in sorted(facts.watch.change.items()) if value}
        lines += ["", f"in {facts.watch.seconds:.1f} s:"]
        lines += [f"  {name:<32} {value:+d}" for name, value in changed.items()] or [f"  {ZERO_CHANGE}"]
        lines.append(f"  {facts.watch.meaning}")
    if facts.selftests:
        run = facts.selftests
        lines += ["", f"selftests: {run.accepted} of {len(run.tests)} accepted in {run.seconds:.0f} s"]
        lines += [f"  {reason}" for reason in run.reasons]
    if facts.estimate:
        lines += ["", *_estimate(facts.estimate)]
    if facts.unseen:
        lines += ["", "not seen:", *(f"  {name}: {why}" for name, why in sorted(facts.unseen.items()))]
    return "\n".join([*lines, "", judgement.verdict(checks)])


def _estimate(found: Estimate) -> list[str]:
    total = found.total
    lines = [f"estimate for {found.scope}: {_mib(total.huge_bytes)} in anonymous huge pages"]
    if total.huge_bytes:
        lines.append(f"  zero-filled: {_range(total.zero_bytes, total.zero_bytes_error)}")
        lines.append(f"  {'limit':>7} {'split':>16}  gives back")
        for limit in total.limits:
            split = "unknown" if limit.split is None else str(limit.split)
            split += f" ± {limit.split_error}" if limit.split_error else ""
            mark = "  <- in force" if limit.in_force else ""
            lines.append(f"  {limit.max_ptes_none:>7} {split:>16}  {_range(limit.bytes, limit.bytes_error)}{mark}")
    if len(found.largest) > 1:
        lines.append("  the largest processes: PID, huge pages, zero-filled of these")
        lines += [f"  {_process(one)}" for one in found.largest]
    if found.locked_bytes:
        lines.append(f"  not counted: {_mib(found.locked_bytes)} locked in memory, which is left alone")
    if found.watched_bytes:
        lines.append(f"  not counted: {_mib(found.watched_bytes)} watched by userfaultfd, not read")
    if found.unseen_processes:
        lines.append(f"  not counted: {found.unseen_processes} processes not looked at: not allowed, or out of time")
    how = "all of them" if found.complete else "a sample; ± is an interval of 95 %"
    lines.append(
        f"  read: {total.read} huge pages, {how}; {_mib(found.read_bytes)} in {found.seconds:.2f} s,"
        f" {found.cpu_seconds:.2f} s of processor time"
    )
    return lines


def _process(one: Subject) -> str:
    return f"{one.pid:>9} {one.name:<16} {_mib(one.huge_bytes):>12}  {_range(one.zero_bytes, one.zero_bytes_error)}"


def _mib(count: int) -> str:
    return f"{count / (1 << 20):.1f} MiB"


def _range(count: int | None, error: int | None) -> str:
    if count is None or error is None:
        return "unknown: none was read"
    return _mib(count) + (f" ± {_mib(error)}" if error else "")
