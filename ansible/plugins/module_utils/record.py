"""The record of a rollout on its host: what it was like before, what was done to it, how far that got.

It outlives the controller, so that another run can continue or roll back. Its format is schemas/record.schema.json.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Optional

from ansible_collections.kernel_thp.fleet.plugins.module_utils import files
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

SCHEMA = 1
FOLDER = Path("/var/lib/kernel-thp")
NAME = "rollout.json"
# A rollout passes through these in this order, or leaves for the two below.
BEGUN, INSTALLING, INSTALLED, ARMED, BOOTED, DONE = "begun", "installing", "installed", "armed", "booted", "done"
ROLLING_BACK, ROLLED_BACK = "rolling-back", "rolled-back"
FINISHED = (DONE, ROLLED_BACK)
SERVICES = "services"
PREVIOUS, ORIGINAL = "previous", "original"

Record = dict[str, Any]
MaybeRecord = Optional[Record]


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


class Store:
    """The file, complete at any time."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self.path = folder / NAME

    def read(self) -> MaybeRecord:
        content = files.text(self.path)
        if content is None:
            return None
        try:
            record = json.loads(content)
        except ValueError:
            raise Problem(f"{self.path} is not JSON", "examine it, and move it away") from None
        if record.get("schema") != SCHEMA:
            what = f"{self.path} has form {record.get('schema')}, this collection knows {SCHEMA}"
            raise Problem(what, "use the release of the collection that wrote it")
        return dict(record)

    def need(self, *phases: str) -> Record:
        """Return the record of a rollout that is in one of these phases."""
        record = self.read()
        if record is None:
            raise Problem("no rollout has begun on this host", "run the role preflight first")
        if record["phase"] not in phases:
            what = f"the rollout is {record['phase']}, and this step needs it to be {' or '.join(phases)}"
            raise Problem(what, "run the roles in their order")
        return record

    def write(self, record: Record, **changes: object) -> Record:
        """Write a record, with changes, and return it."""
        written = {**record, **changes, "changed": now()}
        self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        files.replace(self.path, json.dumps(written, indent=1, sort_keys=True) + "\n")
        return written


def before(record: MaybeRecord) -> Mapping[str, Any]:
    """Return what the host was like before the rollout; nothing without one."""
    return record["before"] if record else {}


def unfinished(record: MaybeRecord) -> bool:
    return record is not None and record["phase"] not in FINISHED


def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two targets are the same. With the same release, profiles or tools may still differ."""
    return one["release"] == other["release"] and sorted(one["packages"]) == sorted(other["packages"])


def drained(record: MaybeRecord) -> bool:
    """Say whether a run has taken the host out of service, or begun to, and none has returned it."""
    return record is not None and bool(record.get("drained"))


def with_drained(record: Record, is_drained: bool) -> Record:
    """Return the record with `drained`, or without it for a host in service."""
    bare = {name: value for name, value in record.items() if name != "drained"}
    return {**bare, "drained": True} if is_drained else bare


def taken_up(old: MaybeRecord, target: Mapping[str, Any]) -> MaybeRecord:
    """Return the rollout that a rollout to this target continues, or None if it is a new one."""
    if old is not None and unfinished(old):
        # By uname, because the flavours of a kernel have the same releases.
        return {**old, "target": target} if old["target"]["uname"] == target["uname"] else None
    if old is not None and old["phase"] == ROLLED_BACK:
        # After a rollback the host is in the state that the previous rollout left.
        old = old["previous"]
    return old if old is not None and same(old["target"], target) else None


def foreign(record: MaybeRecord, identity: str) -> bool:
    """Say whether a record came with the disk of another machine: by its machine id, and by its hardware UUID.

    Not all machines have both, and kernels differ in how they spell the second.
    """
    named = record.get("machine", "").lower().split() if record else []
    own = identity.lower().split()
    # Of one that has only one of them, it is not known which.
    if len(named) != len(own):
        return bool(named and own) and not set(named) & set(own)
    return named != own


def begin(old: MaybeRecord, run: str, target: dict[str, Any], before: dict[str, Any]) -> Record:
    """Return the record to continue with: the existing one if it has the same target, else a new one.

    `before` is only taken once: a rollout that is continued must not record its own changes as the state before. An
    unfinished rollout also continues if packages have become newer since. `drained` is a state of the host and not of
    one rollout, so the new record keeps it.
    """
    bare = with_drained(old, False) if old is not None else None
    return with_drained(_begun(bare, run, target, before), drained(old))


def _begun(old: MaybeRecord, run: str, target: dict[str, Any], before: dict[str, Any]) -> Record:
    known = taken_up(old, target)
    if known is not None and known["phase"] == DONE:
        # What the host offers may have changed since then, and that is what this rollout must not take away.
        found = {**known["before"], **{name: value for name, value in before.items() if name == SERVICES}}
        return {**known, "run": run, "phase": BEGUN, "before": found}
    if known is not None:
        return {**known, "run": run}
    if old is not None and unfinished(old):
        release, uname = old["target"]["release"], old["target"]["uname"]
        what = f"a rollout of {uname} on this host is not finished ({old['phase']})"
        flavour = " and its thp_preflight_kernel_package" if release == target["release"] else ""
        raise Problem(what, f"finish it with thp_preflight_release={release}{flavour}, or run rollback.yml")
    previous = old["previous"] if old is not None and old["phase"] == ROLLED_BACK else old
    return {
        "schema": SCHEMA,
        "run": run,
        "phase": BEGUN,
        "began": now(),
        "target": target,
        "before": before,
        "packages": {"added": [], "removed": []},
        "packages_before": None,
        "packages_touched": None,
        "armed_in": None,
        "previous": previous,
    }


def chain(record: Record) -> Iterator[Record]:
    """Yield the rollouts that are in effect, the last one first."""
    current: MaybeRecord = record["previous"] if record["phase"] == ROLLED_BACK else record
    while current is not None:
        yield current
        current = current["previous"]


def to_undo(record: MaybeRecord, back_to: str) -> MaybeRecord:
    """Return what a rollback has to undo: the last rollout, or all of them combined; None if there is nothing."""
    if record is None or (record["phase"] == ROLLED_BACK and back_to == PREVIOUS):
        return None
    rollouts = list(chain(record))
    if not rollouts:
        return None
    if back_to == PREVIOUS:
        return rollouts[0]
    found = {**rollouts[0], "before": rollouts[-1]["before"], "packages": together(rollouts), "previous": None}
    return with_drained(found, drained(record))


def together(rollouts: list[Record]) -> dict[str, list[str]]:
    """Return what several rollouts, the last one first, added and removed in total."""
    added: set[str] = set()
    removed: set[str] = set()
    for rollout in reversed(rollouts):
        for name in rollout["packages"]["removed"]:
            (added if name in added else removed).symmetric_difference_update({name})
        for name in rollout["packages"]["added"]:
            (removed if name in removed else added).symmetric_difference_update({name})
    return {"added": sorted(added), "removed": sorted(removed)}
