"""Rollbacks: which rollout they undo, whether they can succeed, and which hosts are out of service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import loaders, snapshot
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Record, Store
from ansible_collections.kernel_thp.fleet.plugins.module_utils.systemd_boot import SystemdBoot
from ansible_collections.kernel_thp.fleet.plugins.modules import record as module
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import ready

OLD, FIRST, SECOND = "6.1.0-56-amd64", "1.x86_64+thp.cloud", "2.x86_64+thp.cloud"


def target(release: str, tools: str = "1") -> dict[str, Any]:
    return {"release": release, "uname": f"{release}.x86_64+thp.cloud", "packages": [f"thp-tools-{tools}.noarch"]}


def rollout(release: str, phase: str, uname: str, previous: Record | None = None) -> Record:
    """Return a record with as much in it as a rollback needs."""
    return {
        "schema": records.SCHEMA,
        "run": "r0",
        "phase": phase,
        "target": target(release),
        "before": {"uname": uname},
        "packages": {"added": [f"kernel-thp-cloud-core-{release}.x86_64"], "removed": []},
        "packages_before": None,
        "packages_touched": None,
        "previous": previous,
    }


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """That of a host which runs the kernel of the first release."""
    found = Store(tmp_path / "record")
    monkeypatch.setattr(module, "Store", lambda: found)
    monkeypatch.setattr(snapshot, "uname", lambda: FIRST)
    return found


def run(state: str, check: bool = False, **given: object) -> dict[str, Any]:
    """Run the module record, for the run r1."""
    defaults = {name: option.get("default") for name, option in module.ARGUMENTS.items()}
    return module.work({**defaults, "state": state, "run": "r1", **given}, check)


@pytest.mark.parametrize("back_to", [records.PREVIOUS, records.ORIGINAL])
def test_a_rollout_that_failed_rolls_back_to_the_finished_one_before_it(store: Store, back_to: str) -> None:
    first = rollout("1", records.DONE, OLD)
    store.write(rollout("2", records.BOOTED, FIRST, first))
    begun = run("undoing", back_to=back_to, unfinished_only=True)["record"]
    assert begun["before"]["uname"] == FIRST
    assert begun["packages"]["added"] == ["kernel-thp-cloud-core-2.x86_64"]
    assert begun["previous"] == first


def test_a_rollout_that_is_finished_is_left_alone_by_one_that_failed(store: Store) -> None:
    written = store.write(rollout("1", records.DONE, OLD))
    assert run("undoing", unfinished_only=True) == {"changed": False, "record": None}
    assert store.read() == written


# Whether they can succeed

CORE, APP, TESTS = "kernel-thp-cloud-core-1-1.x86_64", "app-1-1.noarch", "kernel-thp-selftests-0-1.x86_64"
# The two programs in the words of a host: what is installed, what needs the rollout's packages, what can be had.
RPM = f"""\
#!/bin/sh
printf '%s\\n' {CORE} {APP}
"""
DNF = """\
#!/bin/sh
case "$*" in
*--whatrequires*) echo {needing} ;;
*) echo {available}; exit {code} ;;
esac
"""


@pytest.fixture
def old_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The boot entry of the old kernel, which is whole, on a host with systemd-boot."""
    boot = tmp_path / "efi"
    path = boot / "loader" / "entries" / f"lab-{OLD}.conf"
    path.parent.mkdir(parents=True)
    path.write_text(f"version {OLD}\nlinux /{OLD}/linux\ninitrd /{OLD}/initrd\n")
    (boot / OLD).mkdir()
    for name in ("linux", "initrd"):
        (boot / OLD / name).write_text("x")
    monkeypatch.setattr(loaders, "find", lambda: SystemdBoot(tmp_path, boot))
    return path


def with_programs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, needing: str = "", available: str = "", code: int = 0
) -> None:
    folder.mkdir()
    for name, text in {"rpm": RPM, "dnf": DNF.format(needing=needing, available=available, code=code)}.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


PHASES = [records.BEGUN, records.INSTALLING, records.ARMED, records.BOOTED, records.ROLLING_BACK]


@pytest.mark.parametrize("phase", [*PHASES, records.DONE])
@pytest.mark.parametrize("gone", ["entry", "initrd"])
def test_without_the_old_kernel_nobody_sets_out(
    store: Store, old_entry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, phase: str, gone: str
) -> None:
    with_programs(tmp_path / "bin", monkeypatch)
    store.write(rollout("1", phase, OLD))
    (old_entry if gone == "entry" else tmp_path / "efi" / OLD / "initrd").unlink()
    result = run("undoable")
    assert result["failed"]
    assert f"the old kernel {OLD} cannot be started any more" in result["msg"]
    assert "install it again, or move /var/lib/kernel-thp/rollout.json away" in result["msg"]
    record = store.read()
    assert record is not None and record["phase"] == phase


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        ({}, f"no repository has {TESTS}, which the rollout removed; have a repository provide them"),
        ({"available": TESTS, "code": 1}, f"no repository has {TESTS}, which the rollout removed, dnf says"),
        ({"available": TESTS, "needing": APP}, f"{APP} came later and would be removed"),
        ({"available": TESTS, "needing": CORE}, None),
    ],
)
def test_a_host_that_works_is_left_alone_if_its_packages_cannot_be_put_back(
    store: Store,
    old_entry: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    programs: dict[str, Any],
    message: str | None,
) -> None:
    with_programs(tmp_path / "bin", monkeypatch, **programs)
    found = rollout("1", records.DONE, OLD)
    written = store.write({**found, "packages": {"added": [CORE, "gone-1-1.noarch"], "removed": [TESTS, APP]}})
    result = run("undoable")
    if message is None:
        assert result == {"changed": False, "record": written, "reboots": True}
    else:
        assert result["failed"] and message in result["msg"], result
    # One in the middle has to leave its kernel, whatever its packages are like.
    written = store.write({**written, "phase": records.BOOTED})
    assert run("undoable", unfinished_only=True) == {"changed": False, "record": written, "reboots": True}


def test_a_host_that_came_back_by_itself_needs_no_reboot(
    store: Store, old_entry: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write(rollout("1", records.BOOTED, OLD))
    assert run("undoable", unfinished_only=True)["reboots"]
    monkeypatch.setattr(snapshot, "uname", lambda: OLD)
    assert not run("undoable", unfinished_only=True)["reboots"]


def test_what_an_older_version_takes_the_place_of_may_be_needed(
    store: Store, old_entry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = "kernel-thp-cloud-core-0-1.x86_64"
    with_programs(tmp_path / "bin", monkeypatch, needing=APP, available=older)
    found = rollout("1", records.DONE, OLD)
    written = store.write({**found, "packages": {"added": [CORE], "removed": [older]}})
    assert run("undoable") == {"changed": False, "record": written, "reboots": True}


def test_where_nothing_is_undone_nothing_is_in_the_way(store: Store) -> None:
    """It does not even look for a boot loader."""
    nothing = {"changed": False, "record": None, "reboots": False}
    assert run("undoable") == nothing
    store.write(rollout("1", records.DONE, OLD))
    assert run("undoable", unfinished_only=True) == nothing


@pytest.mark.parametrize(
    ("old", "tools", "found"),
    [
        (rollout("1", records.DONE, OLD), "1", True),
        (rollout("1", records.ARMED, OLD), "1", True),
        (rollout("2", records.ROLLED_BACK, FIRST, rollout("1", records.DONE, OLD)), "1", True),
        (rollout("1", records.ROLLED_BACK, OLD), "1", False),
        (rollout("0", records.DONE, OLD), "1", False),
        # With newer tools one in the middle goes on. For one that is done they are a rollout of their own.
        (rollout("1", records.ARMED, OLD), "2", True),
        (rollout("1", records.DONE, OLD), "2", False),
        (rollout("2", records.ROLLED_BACK, FIRST, rollout("1", records.DONE, OLD)), "2", False),
    ],
)
def test_what_is_taken_up_again_has_to_lead_back_to_what_the_first_run_found(
    store: Store, old_entry: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: Record, tools: str, found: bool
) -> None:
    with_programs(tmp_path / "bin", monkeypatch)
    store.write(old)
    result = run("undoable", target=target("1", tools))
    assert (result["record"] or {}).get("target") == (target("1", tools) if found else None)
    old_entry.unlink()
    assert run("undoable", target=target("1", tools)).get("failed", False) == found


# Who is out of service


def test_that_a_host_is_out_of_service_is_in_its_record_until_it_is_back(store: Store) -> None:
    written = store.write(rollout("1", records.BEGUN, OLD))
    assert run("drained", check=True)["changed"]
    assert store.read() == written, "check mode only reports it"
    assert run("drained")["changed"]
    assert records.drained(store.read())
    assert not run("drained")["changed"]
    # What is written by others keeps it.
    store.write(run("undoing", unfinished_only=True)["record"], phase=records.ROLLED_BACK)
    assert records.drained(store.read())
    assert run("undrained")["changed"]
    assert not run("undrained")["changed"]
    found = store.read()
    assert found is not None and "drained" not in found


@pytest.mark.parametrize("state", ["drained", "undrained"])
def test_without_a_record_there_is_nothing_to_write(store: Store, state: str) -> None:
    assert run(state) == {"changed": False, "record": None}
    assert not store.path.exists()


@pytest.mark.parametrize(
    ("phase", "drained", "halfway", "undoable"),
    [
        (records.DONE, False, False, True),
        (records.DONE, True, True, True),
        (records.ROLLED_BACK, False, False, False),
        (records.ROLLED_BACK, True, True, True),
        (records.ROLLING_BACK, False, True, True),
    ],
)
def test_a_host_out_of_service_is_in_the_middle_and_rollback_has_something_to_do(
    phase: str, drained: bool, halfway: bool, undoable: bool
) -> None:
    seen = {"record": records.with_drained(rollout("1", phase, OLD), drained)}
    assert ready.halfway(seen) == halfway
    assert ready.undoable(seen, records.PREVIOUS) == undoable


def test_a_host_that_a_run_holds_is_taken_over_whatever_its_record_says() -> None:
    seen = {"record": rollout("1", records.DONE, OLD), "holder": {"run": "r0"}}
    assert ready.left_behind(seen) and not ready.halfway(seen)
    assert ready.undoable({**seen, "record": None}, records.PREVIOUS)
    assert not ready.left_behind({**seen, "holder": None})
    assert ready.left_behind({"record": rollout("1", records.BOOTED, OLD), "holder": None})
