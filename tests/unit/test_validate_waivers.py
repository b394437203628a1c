"""Waivers: which are valid, what they waive, and what is reported of the others."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from tests.unit.test_validate_checks import collected
from tools.thp_validate import checks, report, taint, waivers
from tools.thp_validate.checks import Check
from tools.thp_validate.facts import Facts
from tools.thp_validate.system import System

TODAY = datetime.date(2027, 1, 15)
WHY = "reason = ticket 1\nexpires = 2027-01-15\n"
SPLAT = "WARNING: CPU: 0 PID: 1 at drivers/net/toy.c:1 f+0x1/0x2"


def host(tmp_path: Path, file: str, flags: str = "", modules: dict[str, str] | None = None, *splats: str) -> Facts:
    """Return the facts about a host with this file, these taint flags, and modules that set some of them."""
    bits = {flag.letter: flag.bit for flag in taint.FLAGS}
    mask = sum(1 << bits[letter] for letter in flags)
    changes: dict[str, str | None] = {f"sys/module/{name}/taint": text for name, text in (modules or {}).items()}
    found = collected(tmp_path, {**changes, "proc/sys/kernel/tainted": str(mask)})
    (tmp_path / "etc" / "thp-validate.conf").write_text(file)
    found.kernel.splats = list(splats)
    found.waivers = waivers.collect(System(tmp_path), today=TODAY)
    waivers.apply(found.waivers, found.kernel)
    return found


def check(found: Facts, name: str) -> Check:
    return next(each for each in checks.evaluate(found) if each.id == name)


@pytest.mark.parametrize(
    ("file", "flags", "modules", "left"),
    [
        (f"[a]\ntaint = P O\n{WHY}", "PO", {}, ""),
        (f"[a]\ntaint = P\n{WHY}", "PO", {}, "O"),
        (f"[a]\ntaint = P\n{WHY}[b]\ntaint = O E\n{WHY}", "PO", {}, ""),
        (f"[a]\ntaint = W\n{WHY}", "WM", {}, "M"),
        (f"[a]\nmodule = toy\n{WHY}", "POE", {"toy": "POE", "ext4": ""}, ""),
        (f"[a]\nmodule = toy\n{WHY}", "POEC", {"toy": "POE"}, "C"),
        # Another module sets the flag as well, or none that is loaded does.
        (f"[a]\nmodule = toy\n{WHY}", "PO", {"toy": "PO", "other": "O"}, "O"),
        (f"[a]\nmodule = toy other\n{WHY}", "PO", {"toy": "PO", "other": "O"}, ""),
        (f"[a]\nmodule = toy\n{WHY}[b]\nmodule = other\n{WHY}", "PO", {"toy": "PO", "other": "O"}, ""),
        (f"[a]\nmodule = toy\n{WHY}", "O", {}, "O"),
        (f"[a]\nmodule = toy\n{WHY}", "F", {"toy": "F"}, "F"),
    ],
)
def test_flags_are_waived(tmp_path: Path, file: str, flags: str, modules: dict[str, str], left: str) -> None:
    found = host(tmp_path, file, flags, modules)
    result = check(found, "kernel-taint")
    named = [part.strip()[0] for part in result.what.removeprefix("the kernel is tainted:").split(";")] if left else []
    assert named == list(left)
    assert (result.verdict == "ok") == (not left)
    assert check(found, "waivers").result == "ok"


def test_the_report_lists_what_was_waived_and_why(tmp_path: Path) -> None:
    found = host(tmp_path, f"[gpu]\ntaint = P\n{WHY}", "P")
    text = report.as_text(found, checks.evaluate(found))
    assert "waived    P, [gpu] until 2027-01-15: ticket 1" in text.splitlines()
    assert text.splitlines()[-1] == "supported"
    made = report.as_json(found, checks.evaluate(found))["waivers"]
    assert made["waived"] == [{"what": "P", "waiver": "gpu"}]
    assert made["valid"][0]["reason"] == "ticket 1"


def test_a_taint_names_the_modules_that_set_it(tmp_path: Path) -> None:
    result = check(host(tmp_path, "", "PO", {"toy": "PO", "other": "O"}), "kernel-taint")
    assert "P, a proprietary module was loaded (toy);" in result.what
    assert result.what.endswith("(other, toy)")
    assert result.hint.endswith("or waive it in /etc/thp-validate.conf")
    assert "waive" not in check(host(tmp_path, "", "M"), "kernel-taint").hint


def test_complaints_are_waived(tmp_path: Path) -> None:
    file = f"[net]\nlog = ^WARNING: .* at drivers/net/\n{WHY}"
    found = host(tmp_path, file, "", {}, SPLAT)
    assert check(found, "kernel-log").result == "ok"
    assert found.kernel.splats == []
    assert f"waived    {SPLAT}, [net] until" in report.as_text(found, checks.evaluate(found))
    both = host(tmp_path, file, "", {}, SPLAT, "BUG: Bad page state in process a  pfn:1")
    assert check(both, "kernel-log").result == "unsupported"
    assert len(both.kernel.splats or ()) == 1


@pytest.mark.parametrize(
    ("file", "problem"),
    [
        ("[a]\ntaint = P\nreason = x\nexpires = 2027-01-14\n", "[a]: it expired on 2027-01-14"),
        ("[a]\ntaint = P\nreason = x\n", "[a]: expires is missing"),
        ("[a]\ntaint = P\nexpires = 2027-06-30\n", "[a]: reason is missing"),
        ("[a]\ntaint = P\nreason =\nexpires = 2027-06-30\n", "[a]: reason is missing"),
        ("[a]\ntaint =\nreason = x\nexpires = 2027-06-30\n", "[a]: taint is missing"),
        ("[a]\ntaint = P\nreason = x\nexpires = 30.6.2027\n", "[a]: expires is 30.6.2027, no date like"),
        ("[a]\ntaint = P\nreason = x\nexpires = 20270630\n", "[a]: expires is 20270630, no date like"),
        ("[a]\ntaint = P\nreason = x\nexpires = 2027-02-30\n", "[a]: expires is 2027-02-30, no date like"),
        (f"[a]\n{WHY}", "[a]: it has 0 of taint, module, log, and needs one"),
        (f"[a]\ntaint = P\nmodule = toy\n{WHY}", "[a]: it has 2 of"),
        (f"[a]\ntaints = P\n{WHY}", "[a]: taints is unknown, it can be taint, module, log, reason, expires"),
        (f"[a]\ntaint = Q\n{WHY}", "[a]: Q is no taint flag"),
        (f"[a]\ntaint = P M\n{WHY}", "[a]: M cannot be waived: the processor reported a machine check"),
        (f"[a]\nlog = (\n{WHY}", "[a]: log is not a regular expression"),
        (f"taint = P\n{WHY}", "the whole file: "),
        (f"[a]\ntaint = P\n{WHY}[a]\ntaint = P\n{WHY}", "the whole file: "),
        ("[a]\ntaint\n", "the whole file: "),
    ],
)
def test_a_wrong_waiver_waives_nothing_and_is_reported(tmp_path: Path, file: str, problem: str) -> None:
    found = host(tmp_path, f"{file}", "P")
    assert found.waivers is not None
    (reported,) = found.waivers.problems
    assert reported.startswith(problem)
    assert check(found, "kernel-taint").result == "degraded"
    result = check(found, "waivers")
    assert (result.result, reported in result.what) == ("degraded", True)
    assert "/etc/thp-validate.conf" in result.hint


def test_a_wrong_waiver_does_not_take_the_others_away(tmp_path: Path) -> None:
    found = host(tmp_path, f"[a]\ntaint = Q\n{WHY}[b]\ntaint = P\n{WHY}", "P")
    assert check(found, "kernel-taint").result == "ok"
    assert check(found, "waivers").result == "degraded"


def test_without_a_file_nothing_is_waived(tmp_path: Path) -> None:
    found = collected(tmp_path, {"proc/sys/kernel/tainted": "1"})
    assert waivers.collect(System(tmp_path)) is None
    waivers.apply(None, found.kernel)
    assert check(found, "kernel-taint").result == "degraded"
    assert check(found, "waivers").result == "skipped"
    found.unseen[waivers.FILE] = "Permission denied"
    assert check(found, "waivers").result == "unseen"


def test_a_waiver_ends_by_the_real_date(tmp_path: Path) -> None:
    host(
        tmp_path,
        "[old]\ntaint = P\nreason = x\nexpires = 2020-01-01\n[new]\ntaint = P\nreason = x\nexpires = 9999-01-01",
    )
    found = waivers.collect(System(tmp_path))
    assert found is not None
    assert [waiver.name for waiver in found.valid] == ["new"]
