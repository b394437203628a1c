"""Which hosts a run works on, and in which batches: the canaries by themselves, then the others, sorted by name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Union

from ansible.errors import AnsibleFilterError
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader

Names = Union[str, Sequence[str]]
Groups = Mapping[str, Sequence[str]]
Size = Union[int, str]

# The default group of canaries, which an inventory may lack.
CANARIES = "canary"
# Sizes of the batches that follow the canaries; the last one repeats. Without canaries, one host comes first.
SIZES: Sequence[Size] = (10, 50)
SHARE = "25%"


def members(groups: Groups, names: Names, variable: str) -> set[str]:
    """Return the hosts of the named groups and hosts. A name that is not in the inventory is an error."""
    listed = list(map(str, _listed(names)))
    everybody = set(groups.get("all", ()))
    unknown = [name for name in listed if name not in groups and name not in everybody]
    if unknown:
        message = f"{variable}: the inventory has no group or host {', '.join(unknown)}"
        raise AnsibleFilterError(f"{message}; give a name, or a list of names in JSON or YAML (patterns: --limit)")
    found: set[str] = set()
    for name in listed:
        found.update(groups.get(name, [name]))
    return found


def limited(groups: Groups, limit: str | None) -> set[str]:
    """Return the hosts that --limit leaves, as Ansible itself finds them."""
    inventory = InventoryManager(DataLoader(), parse=False)
    for group, hosts in groups.items():
        inventory.add_group(group)
        for host in hosts:
            inventory.add_host(host, group=group)
    inventory.subset(limit)
    return {host.name for host in inventory.get_hosts("all")}


def plan(
    groups: Groups,
    hosts: Names = "all",
    canaries: Names = CANARIES,
    sizes: Size | Sequence[Size] | None = None,
    domains: Names = (),
    share: Size = SHARE,
    limit: str | None = None,
) -> list[list[str]]:
    """Return the batches of a run. None has more than a share of any failure domain.

    A batch is smaller than its size where the domains leave no more hosts to choose from; the canaries have to fit.
    """
    chosen = members(groups, hosts, "thp_fleet_hosts")
    if not chosen:
        # Ansible itself would do nothing and report success.
        raise AnsibleFilterError(
            f"thp_fleet_hosts: there is no host in {hosts}; check the inventory (ansible-inventory)"
        )
    wanted = [] if canaries == CANARIES and CANARIES not in groups else canaries
    first = chosen & members(groups, wanted, "thp_fleet_canaries")
    inside = {name: members(groups, [name], "thp_fleet_domains") for name in map(str, _listed(domains))}
    caps = {name: _number(share, len(within), "thp_fleet_domain_share") for name, within in inside.items()}
    if limit is not None:
        left = limited(groups, limit)
        chosen, first = chosen & left, first & left
    others = sorted(chosen - first)
    _expect_shares(first, caps, inside)
    repeated = _listed(sizes) or list(SIZES if first else (1, *SIZES))
    found = [sorted(first)] if first else []
    while others:
        size = _number(repeated[0], len(chosen), "thp_fleet_serial")
        batch = _batch(others, size, caps, inside)
        gone = set(batch)
        others = [host for host in others if host not in gone]
        found.append(batch)
        repeated = repeated[1:] or repeated
    return found


def _listed(given: Size | Sequence[Size] | None) -> list[Size]:
    """Return what was given as a list, or as the one item of it: `-e name=25` gives no list."""
    return [given] if isinstance(given, (str, int)) else list(given or ())


def _expect_shares(first: set[str], caps: Mapping[str, int], inside: Mapping[str, set[str]]) -> None:
    """Fail if the canaries are more of a domain than a batch may have: somebody chose them, so none is left out."""
    for name, cap in caps.items():
        count = len(first & inside[name])
        if count > cap:
            what = f"{count} of these {len(first)} hosts are in {name}, of which a batch has {cap} at most"
            hint = "choose fewer there, or give a larger thp_fleet_domain_share"
            raise AnsibleFilterError(f"thp_fleet_canaries: {what}; {hint}")


def _batch(hosts: Sequence[str], size: int, caps: Mapping[str, int], inside: Mapping[str, set[str]]) -> list[str]:
    """Return the first hosts that fit into a batch."""
    taken: Counter[str] = Counter()
    batch: list[str] = []
    for host in hosts:
        if len(batch) == size:
            break
        own = [name for name in caps if host in inside[name]]
        if all(taken[name] < caps[name] for name in own):
            batch.append(host)
            taken.update(own)
    return batch


def _number(given: Size, hosts: int, variable: str) -> int:
    """Return a number of hosts, at least one, from a number or a percentage."""
    found = re.fullmatch(r"(\d+)(%?)", str(given).strip())
    if found is None or int(found[1]) < 1 or (found[2] and int(found[1]) > 100):
        raise AnsibleFilterError(
            f"{variable}: {given!r} is neither a number of hosts from 1 nor a percentage up to 100%"
        )
    return max(1, hosts * int(found[1]) // 100) if found[2] else int(found[1])
