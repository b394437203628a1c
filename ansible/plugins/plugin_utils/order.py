"""Which hosts a run goes to, in which order: canaries first, both parts sorted, the same every time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

Names = Union[str, Sequence[str]]


def members(groups: Mapping[str, Sequence[str]], names: Names) -> set[str]:
    """Return the hosts of groups and hosts, by name; a name that the inventory does not know has none."""
    listed = [names] if isinstance(names, str) else list(names)
    everybody = set(groups.get("all", ()))
    found: set[str] = set()
    for name in listed:
        found.update(groups.get(name, [name] if name in everybody else []))
    return found


def canaries_first(groups: Mapping[str, Sequence[str]], hosts: Names, canaries: Names) -> list[str]:
    chosen = members(groups, hosts)
    first = chosen & members(groups, canaries)
    return [*sorted(first), *sorted(chosen - first)]
