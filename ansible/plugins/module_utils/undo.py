"""Check whether a host can be restored to the state in its record, and afterwards whether it was."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.kernel_thp.fleet.plugins.module_utils import (
    command,
    hugepages,
    loaders,
    packages,
    snapshot,
    tuned,
)
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import FOLDER, NAME, Record

STAY = f"or move {FOLDER / NAME} away, and the host stays as it is"


def hindrances(record: Record) -> list[str]:
    """Return what would make a rollback fail, each with a hint, before the rollback changes anything.

    Packages count only on a host that is done and works. A host in the middle of a rollout has to leave its kernel now;
    its packages can be fixed later.
    """
    found = _kernel(str(record["before"]["uname"]))
    if record["phase"] == records.DONE:
        installed = set(packages.installed())
        to_remove = [name for name in record["packages"]["added"] if name in installed]
        to_install = [name for name in record["packages"]["removed"] if name not in installed]
        found += _dependents(packages.alone(to_remove, to_install))
        found += _unavailable(to_install)
    return found


def _kernel(uname: str) -> list[str]:
    try:
        loader = loaders.find()
        lacking = loader.incomplete(loader.entry(uname))
    except Problem as problem:
        return [f"the old kernel {uname} cannot be started any more: {problem}; install it again, {STAY}"]
    if not lacking:
        return []
    what = f"the old kernel {uname} cannot be started any more: its boot entry lacks {', '.join(lacking)}"
    return [f"{what}; install it again, {STAY}"]


def _dependents(to_remove: Sequence[str]) -> list[str]:
    others = packages.dependents(to_remove)
    what = f"{', '.join(others)} came later and would be removed with what the rollout installed"
    return [f"{what}; remove them by hand first"] if others else []


def _unavailable(removed: Sequence[str]) -> list[str]:
    if not removed:
        return []
    # A repository that is down does not matter, if others have the packages.
    options = ["-q", "--setopt=*.skip_if_unavailable=1"]
    done = command.run(["dnf", *options, "repoquery", "--qf", "%{name}-%{evr}.%{arch}\\n", *removed])
    gone = sorted(set(removed) - set(done.out.split()))
    if done.code == 0 and not gone:
        return []
    why = f", dnf says {packages.reason(done.out, done.err)}" if done.code != 0 else ""
    what = f"no repository has {', '.join(gone or removed)}, which the rollout removed{why}"
    return [f"{what}; have a repository provide them, or install them by hand, first"]


def remains(record: Record) -> list[str]:
    """Return what is not as it was, one sentence each."""
    before = record["before"]
    found = []
    if snapshot.uname() != before["uname"]:
        found.append(f"{snapshot.uname()} runs, it was {before['uname']}")
    installed = set(packages.installed())
    left = sorted(installed.intersection(record["packages"]["added"]))
    gone = sorted(set(record["packages"]["removed"]) - installed)
    found += [f"still installed: {', '.join(left)}"] if left else []
    found += [f"not installed again: {', '.join(gone)}"] if gone else []
    if not tuned.restored(tuned.from_dict(before["tuned"]), tuned.read()):
        found.append("tuned is not as it was")
    different = hugepages.different(before["hugepages"])
    found += [f"transparent_hugepage/{name} is {value}" for name, value in different.items()]
    loader = loaders.find()
    if loader.settings() != before["boot"]["settings"]:
        found.append(f"the boot loader's default is not as it was: {loader.settings()}")
    if loader.once():
        found.append(f"the next boot would start {loader.once()}")
    return found
