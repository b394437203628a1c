"""junit.xml of a run, as CI reads it."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import report
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import BAD, GOOD, Journal

HOSTS = ["c1", "h1", "h2"]


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    found = Journal(tmp_path / "run-1")
    found.begin("run-1", "rollout", "here", HOSTS, check=False)
    return found


def suite(found: Journal) -> ET.Element:
    return ET.parse(found.folder / "junit.xml").getroot()


def end(found: Journal, host: str, result: str, why: str = "it broke") -> None:
    found.step(host, "kernel")
    if result in BAD:
        found.fail(host, "Reboot into the new kernel", why)
    found.end(host, result)


def test_each_host_is_a_test_and_those_that_were_not_reached_are_skipped(journal: Journal) -> None:
    end(journal, "c1", "done")
    end(journal, "h1", "rolled-back", "no <room> & no\x1b time")
    report.finish(journal, "stopped")
    found = suite(journal)
    assert {name: found.get(name) for name in ("name", "tests", "failures", "skipped")} == {
        "name": "kernel_thp.fleet.rollout",
        "tests": "3",
        "failures": "1",
        "skipped": "1",
    }
    assert [(case.get("name"), [child.tag for child in case]) for case in found] == [
        ("c1", []),
        ("h1", ["failure"]),
        ("h2", ["skipped"]),
    ]
    (failure,) = found.iter("failure")
    assert failure.get("message") == "h1: rolled-back, kernel failed: no <room> & no? time"


@pytest.mark.parametrize("result", [*GOOD, *BAD])
def test_a_host_fails_as_a_test_if_it_failed_in_the_run(journal: Journal, result: str) -> None:
    end(journal, "h1", result)
    report.write(journal)
    assert len(suite(journal).findall("testcase[@name='h1']/failure")) == (result in BAD)


def test_a_host_in_which_a_run_was_cut_off_has_no_result(journal: Journal) -> None:
    journal.step("h1", "soak")
    report.finish(journal, "aborted")
    assert [found.get("message") for found in suite(journal).iter("skipped")] == [
        "not-reached",
        "interrupted",
        "not-reached",
    ]
