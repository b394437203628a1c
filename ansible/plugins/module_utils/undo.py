"""Whether a host is what its record says it was: the last step of a rollback believes nothing else."""

from __future__ import annotations

from ansible_collections.kernel_thp.fleet.plugins.module_utils import hugepages, loaders, packages, snapshot, tuned
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Record


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
        found.append(f"the next boot is told to start {loader.once()}")
    return found
