"""The record of a rollout on its host: what is continued, begun again, or undone, and which step may write it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import holder
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Record, Store

from scripts import collection

SCHEMA = json.loads((collection.SOURCE / "schemas" / "record.schema.json").read_text())
BEFORE: dict[str, Any] = {
    "time": "2030-01-15T10:00:00+00:00",
    "uname": "6.1.0-56-amd64",
    "boot_id": "b0",
    "boot": {"loader": "systemd-boot", "entry": "lab-6.1.0-56-amd64", "settings": {"default": None}},
    "tuned": {
        "installed": True,
        "running": False,
        "enabled": "disabled",
        "active": [],
        "choice": None,
        "mode": None,
    },
    "hugepages": {"enabled": "madvise"},
    "sysctls": {"kernel/panic": "0"},
    "counters": {"time": 1.0, "uptime": 2.0, "memory": {}, "events": {}, "pressure_us": None},
}


def target(release: str, tools: str = "1") -> dict[str, Any]:
    packages = [f"kernel-thp-cloud-core-{release}.x86_64", f"thp-tools-{tools}.noarch"]
    return {"release": release, "uname": f"{release}.x86_64+thp.cloud", "packages": packages}


def begin(old: Record | None, release: str, uname: str = "6.1.0-56-amd64", tools: str = "1") -> Record:
    return records.begin(old, "run", target(release, tools), {**BEFORE, "uname": uname})


def done(release: str, previous: Record | None = None, added: str = "", removed: str = "") -> Record:
    uname = previous["target"]["uname"] if previous else "6.1.0-56-amd64"
    packages = {"added": added.split(), "removed": removed.split()}
    return {**begin(previous, release, uname), "phase": records.DONE, "packages": packages}


def test_what_is_written_is_whole_valid_and_read_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "new")
    written = store.write(done("2", store.write(done("1"))), armed_in="b1", arguments=["panic=30"], drained=True)
    jsonschema.validate(written, SCHEMA)
    assert store.read() == written
    assert [path.name for path in (tmp_path / "new").iterdir()] == [records.NAME]


def test_a_record_of_another_form_is_not_guessed_at(tmp_path: Path) -> None:
    (tmp_path / records.NAME).write_text('{"schema": 2}')
    with pytest.raises(Problem, match="form 2, this collection knows 1"):
        Store(tmp_path).read()


def test_a_step_out_of_order_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(Problem, match="no rollout has begun"):
        store.need(records.BOOTED)
    store.write(begin(None, "1"))
    with pytest.raises(Problem, match="is begun, and this step needs it to be booted or done"):
        store.need(records.BOOTED, records.DONE)


@pytest.mark.parametrize("phase", [records.BEGUN, records.INSTALLING, records.ARMED, records.BOOTED])
def test_an_unfinished_rollout_goes_on_from_what_the_first_run_found(phase: str) -> None:
    old = {**begin(None, "1"), "phase": phase}
    again = begin(old, "1", uname="6.1.187-1.x86_64+thp.cloud")
    assert again["before"]["uname"] == "6.1.0-56-amd64"
    assert again["phase"] == phase


def test_an_unfinished_rollout_of_another_release_is_refused() -> None:
    with pytest.raises(Problem, match=r"a rollout of 1\.x86_64\+thp\.cloud on this host is not finished \(armed\)"):
        begin({**begin(None, "1"), "phase": records.ARMED}, "2")


SERVER = {"release": "1", "uname": "1.x86_64+thp", "packages": ["kernel-thp-core-1.x86_64", "thp-tools-1.noarch"]}


def test_an_unfinished_rollout_of_another_flavour_is_refused() -> None:
    with pytest.raises(
        Problem, match=r"finish it with thp_preflight_release=1 and its thp_preflight_kernel_package, or run"
    ):
        records.begin({**begin(None, "1"), "phase": records.BOOTED}, "run", SERVER, BEFORE)


def test_another_flavour_of_a_release_that_is_done_is_a_rollout_of_its_own() -> None:
    first = done("1")
    second = records.begin(first, "run", SERVER, {**BEFORE, "uname": first["target"]["uname"]})
    assert (second["phase"], second["target"], second["previous"]) == (records.BEGUN, SERVER, first)
    assert second["before"]["uname"] == first["target"]["uname"]


def test_a_finished_rollout_that_is_taken_up_again_keeps_what_it_found_and_did() -> None:
    old = done("1", added="a b")
    again = begin(old, "1", uname="6.1.187-1.x86_64+thp.cloud")
    assert again == {**old, "phase": records.BEGUN}


def test_newer_tools_for_a_kernel_that_is_done_are_a_rollout_of_their_own() -> None:
    first = done("1", added="core-1 tools-1")
    second = begin(first, "1", uname=first["target"]["uname"], tools="2")
    assert (second["phase"], second["previous"]) == (records.BEGUN, first)
    assert second["before"]["uname"] == first["target"]["uname"], "a failure does not take the kernel, too"
    assert second["target"] == target("1", "2")
    undone = {**second, "phase": records.ROLLED_BACK}
    assert begin(undone, "1", tools="2")["previous"] == first
    assert begin(undone, "1")["target"] == first["target"]


def test_a_rollout_in_the_middle_goes_on_with_tools_that_came_meanwhile() -> None:
    old = {**begin(None, "1"), "phase": records.BOOTED}
    again = begin(old, "1", uname="6.1.187-1.x86_64+thp.cloud", tools="2")
    assert again == {**old, "target": target("1", "2")}


def test_a_second_release_finds_the_first_and_remembers_it() -> None:
    first = done("1")
    second = begin(first, "2", uname=first["target"]["uname"])
    assert second["before"]["uname"] == first["target"]["uname"]
    assert second["previous"] == first
    assert second["packages"] == {"added": [], "removed": []}


def test_the_first_release_is_found_again_after_the_second_was_undone() -> None:
    first = done("1", added="a")
    undone = {**done("2", first), "phase": records.ROLLED_BACK}
    assert begin(undone, "1")["packages"]["added"] == ["a"]
    assert begin(undone, "3")["previous"] == first


def test_only_the_last_rollout_is_undone_and_only_once() -> None:
    second = done("2", done("1"))
    assert records.to_undo(second, records.PREVIOUS) == second
    assert records.to_undo({**second, "phase": records.ROLLED_BACK}, records.PREVIOUS) is None
    assert records.to_undo(None, records.PREVIOUS) is None


def test_all_rollouts_are_undone_as_one() -> None:
    first = done("1", added="core-1 tests-1")
    second = done("2", first, added="core-2 tests-2", removed="tests-1")
    found = records.to_undo(second, records.ORIGINAL)
    assert found is not None
    assert found["before"]["uname"] == "6.1.0-56-amd64"
    # tests-1 came and went meanwhile, so there is nothing to do about it.
    assert found["packages"] == {"added": ["core-1", "core-2", "tests-2"], "removed": []}
    assert found["previous"] is None


def test_all_that_is_left_is_undone_after_the_last_one_was() -> None:
    first = done("1", added="core-1")
    undone = {**done("2", first, added="core-2"), "phase": records.ROLLED_BACK}
    found = records.to_undo(undone, records.ORIGINAL)
    assert found is not None
    assert found["packages"]["added"] == ["core-1"]
    only = {**first, "phase": records.ROLLED_BACK}
    assert records.to_undo(only, records.ORIGINAL) is None


def test_a_rollback_that_was_cut_off_is_gone_on_with() -> None:
    cut_off = {**done("1"), "phase": records.ROLLING_BACK}
    assert records.to_undo(cut_off, records.PREVIOUS) == cut_off
    assert begin(cut_off, "1")["phase"] == records.ROLLING_BACK


def test_a_host_out_of_service_stays_so_whatever_it_is_that_is_begun_or_undone_next() -> None:
    first = done("1")
    out = {**first, "drained": True}
    assert records.drained(begin(out, "1"))
    second = begin(out, "2")
    assert records.drained(second)
    assert second["previous"] == first, "it is the host that is out of service, and once"
    undone = {**second, "phase": records.ROLLED_BACK}
    again = begin(undone, "1")
    assert again == {**first, "began": again["began"], "phase": records.BEGUN, "drained": True}
    for back_to in (records.PREVIOUS, records.ORIGINAL):
        found = records.to_undo(second, back_to)
        assert found is not None and records.drained(found)
    found = records.to_undo(undone, records.ORIGINAL)
    assert found is not None and records.drained(found)


@pytest.mark.parametrize("old", [None, done("1"), {**done("2", done("1")), "phase": records.ROLLED_BACK}])
def test_of_a_host_in_service_nothing_is_written(old: Record | None) -> None:
    assert not records.drained(old)
    assert "drained" not in begin(old, "3")


def test_one_run_holds_a_host_at_a_time(tmp_path: Path) -> None:
    assert holder.take("r1", "here", folder=tmp_path) is None
    assert holder.take("r1", "here", folder=tmp_path) is None
    other = holder.take("r2", "there", folder=tmp_path)
    assert other is not None
    assert (other["run"], other["controller"]) == ("r1", "here")
    holder.release("r2", tmp_path)
    assert holder.read(tmp_path) == other
    holder.release("r1", tmp_path)
    assert holder.take("r2", "there", folder=tmp_path) is None


def test_a_run_that_is_known_to_be_gone_gives_way_and_no_other(tmp_path: Path) -> None:
    holder.take("r1", "here", folder=tmp_path)
    assert holder.take("r3", "there", instead_of="r2", folder=tmp_path) is not None
    assert holder.take("r3", "there", instead_of="r1", folder=tmp_path) is None
    found = holder.read(tmp_path)
    assert found is not None and found["run"] == "r3"


def test_half_a_note_of_a_holder_holds_nothing(tmp_path: Path) -> None:
    holder.path(tmp_path).write_text('{"run": "r')
    assert holder.take("r2", "there", folder=tmp_path) is None


# Steps on a host, and what becomes of those that come late


def test_a_step_needs_its_run_to_hold_the_host(tmp_path: Path) -> None:
    with pytest.raises(Problem, match="this run does not hold the host"), holder.step("r1", folder=tmp_path):
        pass
    assert list(tmp_path.iterdir()) == [], "a host that nobody holds is left as it is"
    holder.take("r1", "here", folder=tmp_path)
    with holder.step("r1", folder=tmp_path):
        pass
    with pytest.raises(Problem, match="run r1 of here works on this host"), holder.step("r2", folder=tmp_path):
        pass


def test_what_needs_no_holder_is_kept_away_by_another_one_only(tmp_path: Path) -> None:
    with holder.step("r1", folder=tmp_path / "new", or_nobody=True):
        pass
    holder.take("r1", "here", folder=tmp_path)
    with holder.step("r1", folder=tmp_path, or_nobody=True):
        pass
    refused = pytest.raises(Problem, match="run r1 of here works on this host")
    with refused, holder.step("r2", folder=tmp_path, or_nobody=True):
        pass


def test_a_host_does_not_change_hands_while_a_step_is_under_way(tmp_path: Path) -> None:
    holder.take("r1", "here", folder=tmp_path)
    with holder.step("r1", folder=tmp_path):
        with pytest.raises(Problem, match="a step of run r1 of here has been under way"):
            holder.take("r2", "here", instead_of="r1", timeout=0, folder=tmp_path)
        found = holder.read(tmp_path)
        assert found is not None and found["run"] == "r1"
        other = holder.take("r3", "there", folder=tmp_path)
        assert other is not None, "who has to go away anyway does not wait"
        holder.release("r3", tmp_path)
    assert holder.take("r2", "here", instead_of="r1", timeout=0, folder=tmp_path) is None


STEP = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ansible_collections.kernel_thp.fleet.plugins.module_utils import holder
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Store
folder = Path(sys.argv[2])
with holder.step("r1", folder=folder):
    print("begun", flush=True)
    sys.stdin.read()
    record = Store(folder).read()
    Store(folder).write(record, phase="installed")
"""


def cut_off(folder: Path) -> subprocess.Popen[str]:
    """Return a step of run r1 that has begun, and ends when its standard input does."""
    words = [sys.executable, "-c", STEP, str(collection.link()), str(folder)]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "begun\n"
    return child


def test_a_step_that_was_cut_off_writes_before_the_next_run_and_not_after(tmp_path: Path) -> None:
    holder.take("r1", "here", folder=tmp_path)
    Store(tmp_path).write({**begin(None, "1"), "phase": records.INSTALLING})
    child = cut_off(tmp_path)
    assert child.stdin is not None
    threading.Timer(1.0, child.stdin.close).start()
    assert holder.take("r2", "here", instead_of="r1", timeout=60, folder=tmp_path) is None
    found = Store(tmp_path).read()
    assert found is not None and found["phase"] == records.INSTALLED
    assert child.wait() == 0
    with pytest.raises(Problem, match="run r2 of here works on this host"), holder.step("r1", folder=tmp_path):
        pass


TRANSACTION = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ansible_collections.kernel_thp.fleet.plugins.module_utils import holder, packages
with holder.step("r1", folder=Path(sys.argv[2])):
    packages.dnf(["install", "x"], 0, "")
"""
# It prints that it has begun, and ends on a signal from the test.
SLOW = """\
#!/bin/sh
[ "$1" != --version ] || exit 0
touch {folder}/begun
until [ -e {folder}/may-end ]; do sleep 0.1; done
rm {folder}/begun
"""


def test_a_transaction_whose_module_was_killed_is_waited_for(tmp_path: Path) -> None:
    """Of dnf only what counts here: it is a program of its own, which goes on."""
    programs, folder = tmp_path / "bin", tmp_path / "record"
    programs.mkdir()
    for name, content in {"dnf": SLOW.format(folder=tmp_path), "rpm": f"#!/bin/sh\necho {tmp_path}\n"}.items():
        (programs / name).write_text(content)
        (programs / name).chmod(0o755)
    holder.take("r1", "here", folder=folder)
    words = [sys.executable, "-c", TRANSACTION, str(collection.link()), str(folder)]
    child = subprocess.Popen(words, env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
    deadline = time.monotonic() + 60
    while not (tmp_path / "begun").exists():
        assert time.monotonic() < deadline and child.poll() is None
        time.sleep(0.1)
    child.kill()
    child.wait()
    # Neither by the run that takes over, nor by the one whose connection it was.
    for run in ("r2", "r1"):
        with pytest.raises(Problem, match="a step of run r1 of here has been under way"):
            holder.take(run, "here", instead_of="r1", timeout=0, folder=folder)
    (tmp_path / "may-end").touch()
    assert holder.take("r2", "here", instead_of="r1", timeout=60, folder=folder) is None
    assert not (tmp_path / "begun").exists()


def test_a_step_that_was_killed_holds_nothing_up(tmp_path: Path) -> None:
    holder.take("r1", "here", folder=tmp_path)
    child = cut_off(tmp_path)
    child.kill()
    child.communicate()
    assert holder.take("r2", "here", instead_of="r1", timeout=0, folder=tmp_path) is None
