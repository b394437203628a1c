"""The check of the kernel's log: what is read, and what a splat in it means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.unit.splat_samples import defects
from tests.unit.test_validate_checks import collected
from tools.thp_validate import checks, cli, kernel_log, splat_list
from tools.thp_validate.checks import Check
from tools.thp_validate.system import Output, System

BOOT = "Linux version 6.1.187\n"
BUG, WARNING = "BUG: Bad page state in process a  pfn:1", "WARNING: CPU: 0 PID: 1 at mm/rmap.c:1 f+0x1/0x2"
DENIED = Output(1, "dmesg: read kernel buffer failed: Operation not permitted\n")


class Host(System):
    """Reads an empty tree, and answers for journalctl and dmesg; None: not installed."""

    def __init__(self, root: Path, journal: Output | None, ring: Output | None) -> None:
        super().__init__(root)
        self.answers = {"journalctl": journal, "dmesg": ring}

    def run(self, command: Sequence[str], timeout: float = 1.0) -> Output | None:
        if self.answers[command[0]] is None:
            self.unseen[command[0]] = "not installed"
        return self.answers[command[0]]


def check(tmp_path: Path, host: Host, *allowed: str) -> Check:
    found = collected(tmp_path, {})
    found.kernel.splats = kernel_log.collect(host, allowed)
    found.unseen = host.unseen
    (check,) = (each for each in checks.evaluate(found) if each.id == "kernel-log")
    return check


@pytest.mark.parametrize(
    ("journal", "ring"),
    [
        (Output(0, BOOT), Output(0, f"[ 0.0] {BOOT}")),
        (Output(0, BOOT), DENIED),
        (Output(0, BOOT), None),
        (Output(1, "No journal files were found.\n"), Output(0, f"[ 0.0] {BOOT}")),
        (None, Output(0, f"[ 0.0] {BOOT}")),
        (Output(0, BOOT), Output(0, "the ring buffer is full of other things")),
    ],
)
def test_a_log_from_its_beginning_without_a_complaint_is_good(
    tmp_path: Path, journal: Output | None, ring: Output | None
) -> None:
    host = Host(tmp_path, journal, ring)
    assert check(tmp_path, host).result == "ok"
    assert kernel_log.NAME not in host.unseen


@pytest.mark.parametrize(
    ("journal", "ring", "why"),
    [
        (None, None, "neither journalctl nor dmesg reads it"),
        (Output(1, "No journal files were opened.\n"), DENIED, "Operation not permitted"),
        (Output(0, "-- No entries --\n"), DENIED, "Operation not permitted"),
        (Output(1, ""), None, "it is not readable"),
        (None, Output(0, "the ring buffer is full of other things"), "its beginning is missing"),
    ],
)
def test_a_log_that_is_not_all_there_is_unseen(
    tmp_path: Path, journal: Output | None, ring: Output | None, why: str
) -> None:
    found = check(tmp_path, Host(tmp_path, journal, ring))
    assert (found.result, found.verdict) == ("unseen", "degraded")
    assert why in found.what
    assert found.hint


def test_who_has_not_looked_has_not_seen_it(tmp_path: Path) -> None:
    found = collected(tmp_path, {})
    found.kernel.splats = None
    (check,) = (each for each in checks.evaluate(found) if each.id == "kernel-log")
    assert check.result == "unseen"


@pytest.mark.parametrize("beginning", [BOOT, ""])
def test_a_complaint_counts_wherever_it_is(tmp_path: Path, beginning: str) -> None:
    journal, ring = Output(0, f"{beginning}{WARNING}\n"), Output(0, f"[ 7.5] {WARNING}\n[ 8.5] {BUG}\n")
    host = Host(tmp_path, journal, ring)
    assert kernel_log.collect(host) == [WARNING, BUG]
    found = check(tmp_path, host)
    assert (found.result, found.what) == ("unsupported", f"the kernel complained: {WARNING}; {BUG}")
    assert "reboot" in found.hint


def test_only_the_first_complaints_are_named(tmp_path: Path) -> None:
    log = BOOT + "".join(f"BUG: {number}\n" for number in range(7))
    assert check(tmp_path, Host(tmp_path, Output(0, log), None)).what.endswith("BUG: 0; BUG: 1; BUG: 2 (and 4 more)")


def test_a_complaint_that_is_allowed_is_none(tmp_path: Path) -> None:
    host = Host(tmp_path, Output(0, f"{BOOT}{WARNING}\n"), None)
    assert check(tmp_path, host, "mm/rmap").result == "ok"
    assert check(tmp_path, host, "mm/swap").result == "degraded"


def test_every_kind_has_a_verdict_and_a_hint() -> None:
    meanings = {kind.name: kind.meaning for kind in splat_list.KINDS}
    assert set(meanings.values()) == set(kernel_log.MEANINGS)
    for name, lines in defects().items():
        verdict, hint = kernel_log.meaning(lines)
        assert (verdict, hint) == kernel_log.MEANINGS[meanings[name]]
        assert verdict in ("degraded", "unsupported")


def test_the_worst_complaint_decides() -> None:
    worst_first = [next(kind.name for kind in splat_list.KINDS if kind.meaning == each) for each in kernel_log.MEANINGS]
    lines = [defects()[name][0] for name in worst_first]
    for number, name in enumerate(kernel_log.MEANINGS):
        assert kernel_log.meaning(lines[number:][::-1]) == kernel_log.MEANINGS[name]


def test_in_a_container_nothing_is_read(tmp_path: Path) -> None:
    (tmp_path / ".dockerenv").touch()
    assert kernel_log.collect(Host(tmp_path, Output(0, f"{BOOT}{BUG}\n"), None)) is None


def test_the_log_is_read_after_the_selftests(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    order = []
    monkeypatch.setattr("sys.argv", ["thp-validate", "--selftests", "--allow-log=a", "--allow-log", "b"])
    monkeypatch.setattr(cli.selftests, "run", lambda system: order.append("selftests"))
    monkeypatch.setattr(kernel_log, "collect", lambda system, allowed: order.append(allowed))
    cli.command()
    assert order == ["selftests", ["a", "b"]]
    capsys.readouterr()
