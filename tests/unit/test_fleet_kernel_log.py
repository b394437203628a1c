"""The evaluation of a host in a rollout: what its kernel complained about, by the list that all parts share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, kernel_log, snapshot, splat_list
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.command import Done
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.modules import evaluate, soak

from tests.unit import splat_samples

BOOT = "Linux version 6.1.187\n"
BUG, WARNING = "BUG: Bad page state in process a  pfn:1", "WARNING: CPU: 0 PID: 1 at mm/rmap.c:1 f+0x1/0x2"
COUNTERS = {"time": 1.0, "uptime": 1000.0, "memory": {}, "events": {}, "pressure_us": 0}
Answers = dict[str, Done]
Host = Callable[[Answers], list[list[str]]]
Parameters = dict[str, Any]


def validated(*splats: str, **more: object) -> Done:
    """Return what thp-validate prints when it finds these splats, and nothing else."""
    what = f"the kernel complained: {'; '.join(splats)}"
    reasons = [{"id": "kernel-log", "what": what, "hint": "reboot"}] if splats else []
    kernel = {"splats": list(splats), "taints": []}
    found = {"reasons": reasons, "kernel": kernel, "selftests": None, "waivers": None, **more}
    return Done(1 if splats else 0, json.dumps(found), "")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Have programs answer as given, and return what is called."""
    monkeypatch.setattr(evaluate, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(records.Store.__init__, "__defaults__", (tmp_path,))

    def be(answers: Answers) -> list[list[str]]:
        called = []

        def run(words: Sequence[str], timeout: float = 1.0) -> Done:
            called.append(list(words))
            return answers[words[0]]

        monkeypatch.setattr(command, "run", run)
        monkeypatch.setattr(snapshot, "uname", lambda: "6.1")
        monkeypatch.setattr(snapshot, "boot_id", lambda: "b1")
        return called

    return be


def parameters(**given: object) -> Parameters:
    return {name: given.get(name, about.get("default")) for name, about in evaluate.ARGUMENTS.items()}


def test_the_journal_is_read_and_where_it_does_not_begin_with_the_boot_the_ring_buffer(host: Host) -> None:
    host({"journalctl": Done(0, f"{BOOT}{BUG}\n", "")})
    assert kernel_log.read() == f"{BOOT}{BUG}\n"
    for answer in (Done(0, "-- No entries --\n", ""), Done(1, "", "no journal"), Done(127, "", "not installed")):
        host({"journalctl": answer, "dmesg": Done(0, f"[ 0.0] {BOOT}", "")})
        assert kernel_log.read() == f"[ 0.0] {BOOT}"


def test_a_log_that_cannot_be_read_is_a_problem_and_not_a_good_one(host: Host) -> None:
    host({"journalctl": Done(0, "", ""), "dmesg": Done(0, "the ring buffer is full of other things", "")})
    with pytest.raises(Problem, match="cannot be read"):
        evaluate.work(parameters(), False)


def test_a_complaint_fails_the_host_is_named_once_and_spares_it_the_selftests(host: Host) -> None:
    called = host({"journalctl": Done(0, f"{BOOT}{BUG}\n{BUG}\n", ""), "thp-validate": validated(BUG)})
    result = evaluate.work(parameters(selftests=True), False)
    assert result["problems"] == [f"the kernel complained: {BUG}; reboot"]
    assert result["msg"] == result["problems"][0]
    assert called[-1] == ["thp-validate", "--json"]


@pytest.mark.parametrize("kernel", [{}, {"splats": None}, {"splats": []}])
def test_a_complaint_counts_also_where_thp_validate_does_not_see_it(host: Host, kernel: object) -> None:
    answers = {"journalctl": Done(0, f"{BOOT}{BUG}\n", ""), "thp-validate": validated(kernel=kernel)}
    host(answers)
    assert evaluate.work(parameters(), False)["problems"] == [f"the kernel complained: {BUG}"]
    host({**answers, "thp-validate": Done(127, "", "thp-validate is not installed")})
    bug, mute = evaluate.work(parameters(), False)["problems"]
    assert bug == f"the kernel complained: {BUG}"
    assert "gave no verdict" in mute


def test_a_complaint_during_the_selftests_is_one_that_thp_validate_reports(host: Host) -> None:
    called = host({"journalctl": Done(0, BOOT, ""), "thp-validate": validated(WARNING)})
    assert evaluate.work(parameters(selftests=True), False)["problems"] == [f"the kernel complained: {WARNING}; reboot"]
    assert called[-1] == ["thp-validate", "--json", "--selftests"]


def test_what_an_operator_allows_is_allowed_in_both_places(host: Host) -> None:
    called = host({"journalctl": Done(0, f"{BOOT}{WARNING}\n", ""), "thp-validate": validated()})
    result = evaluate.work(parameters(allowed=["-", "^WARNING: .* f\\+"]), False)
    assert (result["problems"], result["changed"]) == ([], False)
    assert called[-1] == ["thp-validate", "--json", "--allow-log=-", "--allow-log=^WARNING: .* f\\+"]


def test_a_pattern_that_is_none_is_the_operators_mistake(host: Host) -> None:
    host({"journalctl": Done(0, BOOT, "")})
    with pytest.raises(Problem, match="not a regular expression"):
        evaluate.work(parameters(allowed=["("]), False)


# What the old kernel complained about as well

HUNG = "INFO: task jbd2/sda1-8:{} blocked for more than {} seconds."


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        # Another time, processor, process, line, version of the function, and the driver is a module now.
        (
            "WARNING: CPU: 0 PID: 1 at net/sched/sch_generic.c:477 dev_watchdog+0x21f/0x230",
            "WARNING: CPU: 13 PID: 40771 at net/sched/sch_generic.c:525 dev_watchdog.isra.0+0x1a/0x2c0 [sch]",
            True,
        ),
        (WARNING, WARNING.replace(" f+", " fs+"), False),
        (WARNING, WARNING.replace("rmap", "gup"), False),
        (WARNING, f"{WARNING} and more", False),
        (HUNG.format(812, 120), HUNG.format(9, 241), True),
        (HUNG.format(812, 120), HUNG.format(812, 120).replace("sda1", "sdb1"), False),
        (
            "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [kworker/u8:3:61]",
            "watchdog: BUG: soft lockup - CPU#11 stuck for 110s! [kworker/u8:0:4]",
            True,
        ),
        (
            "UBSAN: shift-out-of-bounds in drivers/net/e1000e/netdev.c:12:3",
            "UBSAN: shift-out-of-bounds in drivers/net/e1000e/netdev.c:99:1",
            True,
        ),
        (
            "UBSAN: shift-out-of-bounds in drivers/net/e1000e/netdev.c:12:3",
            "UBSAN: shift-out-of-bounds in drivers/net/e1000/netdev.c:12:3",
            False,
        ),
        ("workqueue: BUG: MAX_STACK_TRACE_ENTRIES too low!", "BUG: MAX_STACK_TRACE_ENTRIES too low!", False),
        # Crashes and damage: however often there were some before.
        (BUG, BUG, False),
        ("kernel BUG at mm/huge_memory.c:1!", "kernel BUG at mm/huge_memory.c:1!", False),
    ],
)
def test_a_complaint_is_known_by_its_kind_and_its_place(host: Host, old: str, new: str, same: bool) -> None:
    host({"journalctl": Done(0, f"{BOOT}[   12.345678] {new}\n", "")})
    assert kernel_log.complaints(kernel_log.allowed([old])) == ([] if same else [new])


def test_each_kind_of_complaint_is_the_same_as_itself() -> None:
    lines = [line for lines in splat_samples.defects().values() for line in lines]
    assert lines
    assert [line for line in lines if splat_list.splats(line, [kernel_log.same(splat_list.unstamped(line))])] == []


def test_of_the_old_kernel_one_line_is_recorded_for_each_place(host: Host) -> None:
    hung = [HUNG.format(pid, 120) for pid in range(100)]
    ring = "\n".join(f"[ 9.0] {line}" for line in (*hung, WARNING))
    # No boot has to be in it: the old kernel may have run for a year.
    host({"journalctl": Done(0, "\n".join(hung), ""), "dmesg": Done(0, ring, "")})
    assert kernel_log.known() == [hung[0], WARNING]
    host({"journalctl": Done(1, "", "no journal"), "dmesg": Done(127, "", "not installed")})
    assert kernel_log.known() == []


def recorded(folder: Path, **before: object) -> None:
    known = {"schema": records.SCHEMA, "phase": records.BOOTED, "before": before}
    records.Store(folder).write(known)


def test_a_warning_that_the_old_kernel_gave_as_well_fails_nobody(host: Host, tmp_path: Path) -> None:
    again = WARNING.replace("CPU: 0 PID: 1 ", "CPU: 3 PID: 77 ")
    taints = [{"bit": 9, "letter": "W", "meaning": "the kernel issued a warning", "verdict": "degraded"}]
    reasons = [{"id": "kernel-taint", "what": "the kernel is tainted: W", "hint": "reboot"}]
    found = validated(reasons=reasons, kernel={"splats": [], "taints": taints})
    called = host({"journalctl": Done(0, f"{BOOT}{again}\n", ""), "thp-validate": found})
    assert len(evaluate.work(parameters(), False)["problems"]) == 2
    recorded(tmp_path, complaints=[WARNING], tainted=1 << 9)
    assert evaluate.work(parameters(selftests=True), False)["problems"] == []
    assert called[-1] == ["thp-validate", "--json", f"--allow-log={kernel_log.same(WARNING)}", "--selftests"]
    # The warning is known, the flag is not.
    recorded(tmp_path, complaints=[WARNING], tainted=1 << 12)
    assert evaluate.work(parameters(), False)["problems"] == ["the kernel is tainted: W; reboot"]


@pytest.mark.parametrize(
    ("letter", "verdict", "waived", "tainted", "fails"),
    [
        ("O", "degraded", [], 1 << 12, False),
        ("O", "degraded", [], 0, True),
        ("O", "degraded", ["O"], 0, False),
        ("O", "degraded", ["E"], 0, True),
        # A machine check says that the memory may be faulty, on any kernel.
        ("M", "unsupported", [], 1 << 12, True),
        ("T", "ok", [], 0, False),
    ],
)
def test_a_taint_counts_unless_the_old_kernel_had_it(
    letter: str, verdict: str, waived: list[str], tainted: int, fails: bool
) -> None:
    """This one comes beside one that the old kernel had."""
    had = {"bit": 9, "letter": "W", "meaning": "", "verdict": "degraded"}
    taints = [had, {"bit": 12, "letter": letter, "meaning": "", "verdict": verdict}]
    found = {
        "reasons": [{"id": "kernel-taint", "what": "tainted", "hint": "reboot"}],
        "kernel": {"taints": taints},
        "waivers": {"waived": [{"what": letter, "waiver": "w"} for letter in waived]},
        "selftests": None,
    }
    assert bool(evaluate.verdict(found, tainted | 1 << 9)) == fails


def test_a_taint_that_cannot_be_read_is_not_excused() -> None:
    reasons = [{"id": "kernel-taint", "what": "it cannot be read", "hint": "mount /proc"}]
    found = {"reasons": reasons, "kernel": {"taints": []}, "waivers": None, "selftests": None}
    assert evaluate.verdict(found, 1 << 9) == ["it cannot be read; mount /proc"]


def test_an_older_validator_without_waivers_is_understood() -> None:
    taints = [{"bit": 12, "letter": "O", "meaning": "", "verdict": "degraded"}]
    reasons = [{"id": "kernel-taint", "what": "tainted", "hint": "reboot"}]
    found = {"reasons": reasons, "kernel": {"taints": taints}, "selftests": None}
    assert evaluate.verdict(found, 1 << 12) == []
    assert evaluate.verdict(found, 0) == ["tainted; reboot"]


def test_the_soak_ends_with_the_first_complaint_that_is_new(host: Host, tmp_path: Path) -> None:
    recorded(tmp_path, complaints=[WARNING], counters=COUNTERS)
    given = {name: about.get("default") for name, about in soak.ARGUMENTS.items()}
    limits = {"pressure": -1.0, "oom_kills": -1, "fallback": -1.0, "interval": 1, "seconds": 1}
    host({"journalctl": Done(0, f"{BOOT}{WARNING}\n", "")})
    assert "failed" not in soak.work({**given, **limits}, False)
    new = HUNG.format(1, 120)
    host({"journalctl": Done(0, f"{BOOT}{WARNING}\n{new}\n", "")})
    found = soak.work({**given, **limits, "seconds": 5}, False)
    assert found["msg"] == f"after 0 s of soaking: the kernel complained: {new}"
    assert "failed" not in soak.work({**given, **limits, "allowed": ["^INFO: task jbd2"]}, False)
    # The health command alone, also before the rollout: that is not about the kernel.
    assert "failed" not in soak.work({**given, **limits, "seconds": 0}, False)
