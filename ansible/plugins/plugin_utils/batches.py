"""Which hosts a run works on, in a deterministic order: canaries first, both parts sorted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Union

from ansible.errors import AnsibleFilterError

Names = Union[str, Sequence[str]]

# The default group of canaries, which an inventory may lack.
CANARIES = "canary"


def members(groups: Mapping[str, Sequence[str]], names: Names, variable: str) -> set[str]:
    """Return the hosts of the named groups and hosts. A name that is not in the inventory is an error."""
    listed = [names] if isinstance(names, str) else list(names)
    everybody = set(groups.get("all", ()))
    unknown = [str(name) for name in listed if name not in groups and name not in everybody]
    if unknown:
        message = f"{variable}: the inventory has no group or host {', '.join(unknown)}"
        raise AnsibleFilterError(f"{message}; give a name, or a list of names in JSON or YAML (patterns: --limit)")
    found: set[str] = set()
    for name in listed:
        found.update(groups.get(name, [name]))
    return found


def canaries_first(groups: Mapping[str, Sequence[str]], hosts: Names, canaries: Names) -> list[str]:
    chosen = members(groups, hosts, "fleet_hosts")
    if not chosen:
        # Ansible itself would do nothing and report success.
        raise AnsibleFilterError(f"fleet_hosts: there is no host in {hosts}; check the inventory (ansible-inventory)")
    wanted = [] if canaries == CANARIES and CANARIES not in groups else canaries
    first = chosen & members(groups, wanted, "fleet_canaries")
    return [*sorted(first), *sorted(chosen - first)]
