"""The journal of a run and its report: which hosts failed, whether the run continues, the page, however it ended."""

from __future__ import annotations

import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import jsonschema
import pytest
from ansible_collections.kernel_thp.fleet.plugins.filter import fleet
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process, report, summary
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import BAD, GOOD, Journal

from scripts import collection

SCHEMA = json.loads((collection.SOURCE / "schemas" / "report.schema.json").read_text())
HOSTS = ["c1", "h1", "h2"]
COUNTERS = {
    "time": 1.0,
    "uptime": 100.0,
    "memory": {"MemAvailable": 1 << 30, "AnonPages": 200 << 20, "AnonHugePages": 150 << 20},
    "events": {"thp_underused_split_page": 7, "thp_zero_subpages_dropped": 512},
    "pressure_us": 1_000_000,
}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    found = Journal(tmp_path / "run-1")
    found.begin("run-1", "rollout", process.controller(), HOSTS, check=False)
    return found


def page(found: Journal) -> str:
    return (found.folder / "report.html").read_text()


def fail(found: Journal, host: str, result: str, why: str = "it broke") -> None:
    found.step(host, "preflight")
    found.step(host, "kernel")
    found.fail(host, "Reboot into the new kernel", why)
    found.step(host, "rollback")
    found.end(host, result)


@pytest.mark.parametrize(("result", "restored"), [("rolled-back", True), ("failed", False), ("lost", False)])
def test_a_step_ends_when_the_next_begins_and_the_failed_one_is_known(
    journal: Journal, result: str, restored: bool
) -> None:
    fail(journal, "h1", result)
    note = journal.note("h1")
    assert note is not None
    assert [(step["name"], step["ok"]) for step in note["steps"]] == [
        ("preflight", True),
        ("kernel", False),
        ("rollback", restored),
    ]
    assert note["failed"] == {"step": "kernel", "task": "Reboot into the new kernel", "why": "it broke"}


def test_the_first_failure_is_told_and_what_followed_beside_it(journal: Journal) -> None:
    fail(journal, "h1", "rolled-back")
    journal.fail("h1", "Take the packages back", "that, too")
    journal.end("h1", "lost", "it does not answer")
    (fallen,) = summary.casualties(journal.notes())
    assert summary.sentence(fallen) == "h1: lost, kernel failed: it broke (it does not answer)"


@pytest.mark.parametrize("result", BAD)
def test_every_bad_end_counts(journal: Journal, result: str) -> None:
    fail(journal, "h1", result)
    assert [host["result"] for host in summary.casualties(journal.notes())] == [result]


@pytest.mark.parametrize("result", GOOD)
def test_no_good_end_counts(journal: Journal, result: str) -> None:
    journal.step("h1", "preflight")
    journal.end("h1", result)
    assert summary.casualties(journal.notes()) == []


def test_a_host_that_failed_before_its_first_step_counts(journal: Journal) -> None:
    journal.fail("h1", "Note that preflight begins", "no such variable")
    journal.end("h1", "failed")
    journal.end("h2", "unreachable")
    found = summary.casualties(journal.notes())
    assert [(host["host"], host["result"]) for host in found] == [("h1", "failed"), ("h2", "unreachable")]
    assert summary.sentence(found[0]) == "h1: failed, start failed: no such variable"
    jsonschema.validate(report.write(journal), SCHEMA)


@pytest.mark.parametrize(
    ("dropped", "batch", "reached"),
    [
        ("", "ab", "ab"),
        ("", "cd", "abcd"),
        ("b", "ab", "ab"),
        ("a", "ab", "ab"),
        ("abc", "def", "abcdef"),
        ("def", "cdef", "abcdef"),
        ("bd", "bc", "abcd"),
    ],
)
def test_hosts_that_ansible_dropped_had_their_turn(dropped: str, batch: str, reached: str) -> None:
    left = [host for host in "abcdef" if host not in dropped]
    found = summary.reached("abcdef", left, [host for host in batch if host in left])
    assert "".join(found) == reached


def test_a_host_that_vanished_counts_as_lost(journal: Journal) -> None:
    journal.step("h1", "preflight")
    (fallen,) = summary.casualties(journal.notes())
    assert fallen["result"] == "lost"
    assert "preflight failed: contact was lost" in summary.sentence(fallen)


def test_the_complaint_names_host_step_and_reason(journal: Journal) -> None:
    fail(journal, "c1", "rolled-back", "no\n  room")
    message = summary.complaint("1 host failed", summary.casualties(journal.notes()))
    assert message == "1 host failed; c1: rolled-back, kernel failed: no room"


def test_a_complaint_about_too_many_hosts_to_read_names_the_first(journal: Journal) -> None:
    for number in range(22):
        fail(journal, f"h{number:02}", "rolled-back")
    message = summary.complaint("22 hosts failed", summary.casualties(journal.notes()))
    assert message.count("kernel failed") == 20
    assert message.endswith("h19: rolled-back, kernel failed: it broke; and 2 more, see the report")


def test_hosts_that_were_kept_back_are_counted_after_those_that_failed(journal: Journal) -> None:
    why = f"{summary.NOT_BEGUN}this run has failed on h98, h99, and 1 may fail"
    for number in range(98):
        fail(journal, f"h{number:02}", "rolled-back", why)
    fail(journal, "h98", "rolled-back")
    fail(journal, "h99", "lost")
    message = summary.complaint("100 hosts failed", summary.casualties(journal.notes()))
    assert message == (
        "100 hosts failed; h98: rolled-back, kernel failed: it broke; h99: lost, kernel failed: it broke; "
        "98 of all these were not begun because of that"
    )


def test_the_report_holds_every_host_in_order_also_those_never_reached(journal: Journal) -> None:
    fail(journal, "c1", "rolled-back")
    whole = report.finish(journal, "stopped", "1 host failed")
    jsonschema.validate(whole, SCHEMA)
    assert [(host["host"], host["result"]) for host in whole["hosts"]] == [
        ("c1", "rolled-back"),
        ("h1", "not-reached"),
        ("h2", "not-reached"),
    ]
    assert whole["counts"] == {"not-reached": 2, "rolled-back": 1}
    assert json.loads((journal.folder / "report.json").read_text()) == whole
    for text in (*HOSTS, "stopped", "rolled-back", "not-reached", "it broke", "Reboot into the new kernel"):
        assert text in page(journal)


@pytest.mark.parametrize(
    ("state", "result", "failed", "kind"),
    [
        ("finished", "done", False, "good"),
        ("finished", "rolled-back", True, "bad"),
        ("finished", None, True, "bad"),
        ("stopped", "done", True, "bad"),
        ("aborted", "done", True, "bad"),
        ("running", "done", False, "open"),
        ("running", "rolled-back", True, "open"),
        ("running", None, False, "open"),
    ],
)
def test_a_run_is_good_only_if_all_its_hosts_are(
    journal: Journal, state: str, result: str | None, failed: bool, kind: str
) -> None:
    """One without a result is lost, unless the run is still under way."""
    journal.step("h1", "gate")
    if result:
        journal.end("h1", result)
    whole = report.write(journal) if state == "running" else report.finish(journal, state)
    jsonschema.validate(whole, SCHEMA)
    assert whole["failed"] is failed
    assert f'<span class="{kind}">{state}</span>' in page(journal)


def test_before_and_after_are_on_the_page(journal: Journal) -> None:
    journal.step("h1", "preflight")
    after = {"uname": "new", "counters": COUNTERS, "verdict": "supported"}
    journal.add("h1", {"before": {"uname": "old", "counters": {**COUNTERS, "events": {}}}, "after": after})
    journal.add("h1", {"soak": {"pressure": 2.5}, "remarks": ["there is no hardware watchdog"]})
    journal.end("h1", "done")
    jsonschema.validate(report.write(journal), SCHEMA)
    shown = page(journal)
    for text in ("old → new", "1024 MiB", "75 %", "- → 7", "- → 2 MiB", "1.0 % → 2.5 %", "supported", "no hardware"):
        assert text in shown, text


class Outside(HTMLParser):
    """Collects what a page would fetch, and the elements of a kind."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]


def test_the_page_needs_nothing_else_and_believes_no_host(journal: Journal) -> None:
    fail(journal, "h1", "failed", "<script>alert(1)</script><img src=x>")
    report.write(journal)
    parser = Outside()
    parser.feed(page(journal))
    assert parser.links == []
    assert not {"script", "img", "link", "iframe"} & set(parser.tags)
    assert "&lt;script&gt;" in page(journal)


def test_what_is_no_text_is_told_as_far_as_it_is(journal: Journal) -> None:
    """Of bytes that are no UTF-8, Ansible makes surrogates."""
    journal.step("h1", "preflight")
    journal.add("h1", {"remarks": ["th\udce9 watchdog"]})
    journal.fail("h1", "Ask \udce9", "acc\udce8s\n refus\udce9")
    journal.end("h1", "lost", "encor\udce9")
    whole = report.finish(journal, "stopped", "refus\udce9")
    (host,) = (host for host in whole["hosts"] if host["failed"])
    assert host["failed"] == {"step": "preflight", "task": "Ask ?", "why": "acc?s refus?", "then": "encor?"}
    assert fleet.why({"msg": "acc\udce8s\n refus\udce9"}) == "acc?s refus?"
    for path in (*journal.folder.rglob("*.json"), journal.folder / "report.html"):
        assert "udce" not in path.read_text(), path
    for text in ("Ask ?", "acc?s refus?", "encor?", "th? watchdog"):
        assert text in page(journal)


def test_a_name_of_a_host_cannot_lead_elsewhere(journal: Journal) -> None:
    journal.step("../../x y", "preflight")
    assert [path.parent for path in journal.folder.glob("**/*x%20y.json")] == [journal.folder / "hosts"]
    assert [note["host"] for note in journal.notes()] == ["../../x y"]


def test_one_run_is_about_one_release(journal: Journal) -> None:
    assert journal.release() == ""
    assert journal.release("1") == "1"
    assert journal.release("2") == "1"


def test_the_page_is_kept_up_to_date_at_little_cost(journal: Journal) -> None:
    journal.step("c1", "preflight")
    report.refresh(journal)
    assert "running" in page(journal)
    (journal.folder / ".refreshed").write_text(f"1000 {Path(journal.folder / 'run.json').stat().st_mtime}\n")
    (journal.folder / "report.html").unlink()
    report.refresh(journal)
    assert not (journal.folder / "report.html").exists(), "an expensive report is not made at each step"


def test_a_page_that_cannot_be_written_is_nobodys_failure(journal: Journal) -> None:
    (journal.folder / "report.html").mkdir()
    report.refresh(journal)
    (journal.folder / "run.json").write_text("{")
    report.refresh(journal)


def test_a_run_that_was_killed_gets_its_report_and_one_that_lives_is_left_alone(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    name = process.name(child.pid)
    assert name is not None
    killed = Journal(tmp_path / name)
    killed.begin(name, "rollout", process.controller(), HOSTS, check=False)
    killed.step("c1", "gate")
    assert not process.gone(name, process.controller())
    assert report.finish_dead(tmp_path) == []
    child.kill()
    child.wait()
    assert process.gone(name, process.controller())
    assert not process.gone(name, "another machine"), "of another controller nothing is known"
    assert report.finish_dead(tmp_path) == [name]
    whole = json.loads((killed.folder / "report.json").read_text())
    assert (whole["state"], whole["hosts"][0]["result"]) == ("aborted", "interrupted")
    assert report.finish_dead(tmp_path) == []


def test_a_dead_run_in_which_something_was_no_text_gets_its_report_as_well(tmp_path: Path) -> None:
    killed = Journal(tmp_path / "killed")
    killed.begin("00000000-1-1", "rollout", process.controller(), HOSTS, check=False)
    killed.step("c1", "gate")
    killed.fail("c1", "Ask", "it broke")
    path = killed.folder / "hosts" / "c1.json"
    path.write_text(path.read_text().replace("it broke", r"refus\udce9"))
    assert report.finish_dead(tmp_path) == ["killed"]
    assert "refus?" in page(killed)


def test_a_report_that_could_not_be_written_is_made_by_the_next_run(tmp_path: Path) -> None:
    killed = Journal(tmp_path / "killed")
    killed.begin("00000000-1-1", "rollout", process.controller(), HOSTS, check=False)
    (killed.folder / "report.html").mkdir()
    assert report.finish_dead(tmp_path) == []
    (killed.folder / "report.html").rmdir()
    assert report.finish_dead(tmp_path) == ["killed"]
    assert "aborted" in page(killed)


def test_the_latest_run_can_be_found(tmp_path: Path) -> None:
    for name in ("run-1", "run-2"):
        Journal(tmp_path / name).begin(name, "rollout", "here", HOSTS, check=False)
    assert (tmp_path / "latest").resolve().name == "run-2"
