"""What a way back is about: whose rollout it undoes, whether it can be gone at all, and who is out of service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Record, Store
from ansible_collections.kernel_thp.fleet.plugins.modules import record as module

OLD, FIRST, SECOND = "6.1.0-56-amd64", "1.x86_64+thp", "2.x86_64+thp"


def rollout(release: str, phase: str, uname: str, previous: Record | None = None) -> Record:
    """Return a record with as much in it as a way back needs."""
    return {
        "schema": records.SCHEMA,
        "run": "r0",
        "phase": phase,
        "target": {"release": release, "uname": f"{release}.x86_64+thp", "packages": []},
        "before": {"uname": uname},
        "packages": {"added": [f"kernel-thp-core-{release}.x86_64"], "removed": []},
        "packages_before": None,
        "previous": previous,
    }


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    found = Store(tmp_path / "record")
    monkeypatch.setattr(module, "Store", lambda: found)
    return found


def ask(state: str, check: bool = False, **given: object) -> dict[str, Any]:
    """Ask the module record, as the run r1."""
    defaults = {name: option.get("default") for name, option in module.ARGUMENTS.items()}
    return module.work({**defaults, "state": state, "run": "r1", **given}, check)


@pytest.mark.parametrize("back_to", [records.PREVIOUS, records.ORIGINAL])
def test_a_rollout_that_failed_goes_back_to_the_finished_one_before_it(store: Store, back_to: str) -> None:
    first = rollout("1", records.DONE, OLD)
    store.write(rollout("2", records.BOOTED, FIRST, first))
    begun = ask("undoing", back_to=back_to, unfinished_only=True)["record"]
    assert begun["before"]["uname"] == FIRST
    assert begun["packages"]["added"] == ["kernel-thp-core-2.x86_64"]
    assert begun["previous"] == first


def test_a_rollout_that_is_finished_is_left_alone_by_one_that_failed(store: Store) -> None:
    written = store.write(rollout("1", records.DONE, OLD))
    assert ask("undoing", unfinished_only=True) == {"changed": False, "record": None}
    assert store.read() == written
