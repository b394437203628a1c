"""The output formats: the JSON object, JUnit, and text."""

from __future__ import annotations

import datetime
import xml.etree.ElementTree as ET
from typing import Any

from . import VERSION, debugging, junit, schema, secure_boot, taint
from .blocks import KINDS
from .checks import SKIPPED, UNSEEN, Check, verdict
from .document import SCHEMA, Document, Reason
from .estimate import Estimate, Subject
from .facts import Facts
from .kernel import OTHER
from .thp import LATE, OWN

EXIT = {"supported": 0, "degraded": 1, "unsupported": 2}
ZERO_CHANGE = "(no counter changed)"


def as_json(facts: Facts, checks: list[Check]) -> dict[str, Any]:
    found: dict[str, Any] = schema.plain(
        Document(
            schema=SCHEMA,
            version=VERSION,
            time=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            verdict=verdict(checks),
            reasons=[
                Reason(check.id, check.verdict, check.what, check.hint) for check in checks if check.verdict != taint.OK
            ],
            checks={check.id: check.result for check in checks},
            host=facts.host,
            kernel=facts.kernel,
            installed=facts.installed,
            secure_boot=facts.secure_boot,
            debugging=facts.debugging,
            thp=facts.thp,
            blocks=facts.blocks,
            profile=facts.profile,
            counters=facts.counters,
            waivers=facts.waivers,
            watch=facts.watch,
            selftests=facts.selftests,
            estimate=facts.estimate,
            unseen=facts.unseen,
        )
    )
    return found


def as_junit(facts: Facts, checks: list[Check]) -> str:
    """Return a JUnit suite. An unseen check is an error, not a skip: CI systems count a skip as good."""
    suite = ET.Element("testsuite", name="thp-validate", hostname=facts.host.name)
    for check in checks:
        case = ET.SubElement(suite, "testcase", classname="thp-validate", name=check.id)
        if check.result == UNSEEN:
            ET.SubElement(case, "error", message=f"{check.what}; {check.hint}")
        elif check.result == SKIPPED:
            ET.SubElement(case, "skipped", message=check.what)
        elif check.result != taint.OK:
            ET.SubElement(case, "failure", message=f"{check.result}: {check.what}; {check.hint}")
    for test in facts.selftests.tests if facts.selftests else []:
        junit.add(suite, test)
    return junit.finished(suite)


def as_text(facts: Facts, checks: list[Check]) -> str:
    kernel, thp = facts.kernel, facts.thp
    threshold = "no shrinker" if thp.threshold is None else f"threshold {thp.threshold} of {thp.subpages}"
    switched = "" if thp.shrink_underused is None else f", shrinker {'on' if thp.shrink_underused else 'off'}"
    defrag = "" if thp.defrag is None else f", defrag {thp.defrag}"
    if thp.defrag_mode is not None:
        defrag += f", defrag mode {'on' if thp.defrag_mode else 'off'}"
    swapin = "" if thp.swapin_enabled is None else f", swap-in {thp.swapin_enabled}"
    lines = [
        f"host      {facts.host.name}" + (f", {facts.host.os}" if facts.host.os else ""),
        f"kernel    {kernel.uname}" + (f", {kernel.nevra}" if kernel.nevra else ""),
        f"THP       {thp.enabled_in_force or 'none'}{switched}, {threshold}{defrag}{swapin}"
        if thp.present
        else "THP       none",
        f"profile   {' '.join(facts.profile.active) or 'none'}"
        + (", but tuned is not running" if facts.profile.installed and not facts.profile.running else ""),
    ]
    if facts.host.anon_huge_bytes is not None and facts.host.memory_bytes:
        lines.append(f"in use    {_mib(facts.host.anon_huge_bytes)} of {_mib(facts.host.memory_bytes)} as huge pages")
    lines.append(f"boot      {secure_boot.text(facts.secure_boot)}")
    lines.append(f"debug     {debugging.text(facts.debugging)}")
    lines += _blocks(facts)
    if facts.waivers:
        lines += [f"waived    {each.what}, {facts.waivers.until(each.waiver)}" for each in facts.waivers.waived]
    for check in checks:
        if check.verdict != taint.OK:
            lines += ["", f"{check.result:<12}{check.id}: {check.what}", f"{'hint':<12}{check.hint}"]
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
    return "\n".join([*lines, "", verdict(checks)])


def _blocks(facts: Facts) -> list[str]:
    found = facts.blocks
    if found is None:
        return []
    shares = ", ".join(f"{100 * getattr(found, name) / found.sampled:.0f} % {name}" for name in KINDS)
    lines = [f"blocks    {shares}, of {found.sampled} blocks{'' if found.complete else ', a sample'}"]
    if found.fragmented and facts.thp.defrag_mode:
        lines.append(f"{'':<10}{_fragmented(facts)}")
    return lines


def _fragmented(facts: Facts) -> str:
    word = facts.thp.defrag_mode_at_boot
    if word:
        return f"fragmented although booted with {word}: unmovable memory outgrew the free blocks"
    word = LATE if facts.kernel.flavour == OTHER else OWN
    return f"fragmented before vm.defrag_mode was on, or since: boot with {word}=1 on the kernel command line"


def _estimate(found: Estimate) -> list[str]:
    total = found.total
    lines = [f"estimate for {found.scope}: {_mib(total.huge_bytes)} in anonymous huge pages"]
    if total.huge_bytes:
        lines.append(f"  zero-filled: {_range(total.zero_bytes, total.zero_bytes_error)}")
        lines.append(f"  {'threshold':>9} {'split':>16}  reclaims")
        for threshold in total.thresholds:
            split = "unknown" if threshold.split is None else str(threshold.split)
            split += f" ± {threshold.split_error}" if threshold.split_error else ""
            mark = "  <- in force" if threshold.in_force else ""
            freed = _range(threshold.bytes, threshold.bytes_error)
            lines.append(f"  {threshold.pages:>9} {split:>16}  {freed}{mark}")
    if len(found.largest) > 1:
        lines.append("  the largest processes: PID, huge pages, zero-filled part of them")
        lines += [f"  {_process(one)}" for one in found.largest]
    if found.locked_bytes:
        lines.append(f"  not counted: {_mib(found.locked_bytes)} locked in memory, never reclaimed")
    if found.watched_bytes:
        lines.append(f"  not counted: {_mib(found.watched_bytes)} watched by userfaultfd, not read")
    if found.unseen_processes:
        lines.append(f"  not counted: {found.unseen_processes} processes, without permission or out of time")
    how = "all of them" if found.complete else "a sample; ± is a 95 % interval"
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
