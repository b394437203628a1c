"""The batches of a run: canaries by themselves, then no more hosts at a time than a failure domain can spare."""

from __future__ import annotations

import itertools
from pathlib import Path

import jinja2
import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.kernel_thp.fleet.plugins.filter import fleet as fleet_filters
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import batches

from scripts import collection

GROUPS = {"all": ["b", "a", "d", "c"], "web": ["d", "b", "a"], "canary": ["d", "c"]}


@pytest.mark.parametrize(
    ("hosts", "canaries", "planned"),
    [
        ("all", "canary", [["c", "d"], ["a", "b"]]),
        ("web", "canary", [["d"], ["a", "b"]]),
        ("web", [], [["a"], ["b", "d"]]),
        (["a", "c"], ["c"], [["c"], ["a"]]),
        (["web", "c"], "c", [["c"], ["a", "b", "d"]]),
        ("canary", "canary", [["c", "d"]]),
    ],
)
def test_canaries_are_a_batch_and_all_batches_are_sorted(
    hosts: object, canaries: object, planned: list[list[str]]
) -> None:
    assert batches.plan(GROUPS, hosts, canaries) == planned


def test_an_inventory_can_do_without_the_group_that_canaries_have_by_default() -> None:
    without = {name: hosts for name, hosts in GROUPS.items() if name != "canary"}
    assert batches.plan(without, "web", "canary", [1]) == [["a"], ["b"], ["d"]]


@pytest.mark.parametrize(
    ("hosts", "canaries", "message"),
    [
        ("wbe", "canary", "thp_fleet_hosts: the inventory has no group or host wbe"),
        ("a:b", "canary", "thp_fleet_hosts: the inventory has no group or host a:b"),
        (["a", "bb", "c"], "canary", "thp_fleet_hosts: the inventory has no group or host bb"),
        ("web", "canaries", "thp_fleet_canaries: the inventory has no group or host canaries"),
        ("web", ["canary", "dd"], "thp_fleet_canaries: the inventory has no group or host dd"),
        ("empty", "canary", "thp_fleet_hosts: there is no host in empty"),
    ],
)
def test_a_name_that_nobody_has_and_a_fleet_without_hosts_are_mistakes(
    hosts: object, canaries: object, message: str
) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        batches.plan({**GROUPS, "empty": []}, hosts, canaries)


def fleet(hosts: int, canaries: int, racks: int) -> dict[str, list[str]]:
    names = [f"h{number:04}" for number in range(hosts)]
    groups = {f"rack{rack}": names[rack::racks] for rack in range(racks)}
    return {"all": names, "canary": names[:canaries], **groups}


def sizes(planned: list[list[str]]) -> list[int]:
    return [len(batch) for batch in planned]


def test_of_five_thousand_hosts_fifty_at_most_are_away_at_a_time() -> None:
    planned = batches.plan(fleet(5000, 10, 1))
    assert sizes(planned) == [10, 10, *[50] * 99, 30]
    assert sizes(batches.plan(fleet(100, 0, 1), sizes=[2, "25%"])) == [2, 25, 25, 25, 23]


def test_a_batch_has_no_more_than_a_share_of_any_domain() -> None:
    groups = fleet(26, 2, 3)
    racks = ["rack0", "rack1", "rack2"]
    planned = batches.plan(groups, sizes=[9], domains=racks, share="25%")
    assert sorted(host for batch in planned for host in batch) == groups["all"]
    for batch in planned:
        assert all(len(set(batch) & set(groups[rack])) <= 2 for rack in racks), batch
    assert sizes(planned) == [2, 6, 6, 6, 6]


@pytest.mark.parametrize(("share", "may"), [("25%", 2), (1, 1), ("50%", None), (3, None)])
def test_canaries_are_no_more_than_a_share_of_any_domain(share: batches.Size, may: int | None) -> None:
    groups = {**fleet(16, 0, 2), "canary": ["h0000", "h0001", "h0002", "h0004"]}

    def planned(**more: str) -> list[list[str]]:
        return batches.plan(groups, sizes=["100%"], domains=["rack0", "rack1"], share=share, **more)

    if may is None:
        assert planned()[0] == groups["canary"]
        return
    message = f"thp_fleet_canaries: 3 of these 4 hosts are in rack0, of which a batch has {may} at most; choose"
    with pytest.raises(AnsibleFilterError, match=message):
        planned()
    assert planned(limit="all:!h0002:!h0004")[0] == ["h0000", "h0001"], "one of a domain is always possible"


def test_a_canary_of_the_smallest_domain_is_possible() -> None:
    groups = {"all": ["a", "b", "c"], "canary": ["a"], "rack": ["a"], "row": ["a", "b"]}
    assert batches.plan(groups, domains=["rack", "row"], share="10%") == [["a"], ["b", "c"]]


def test_one_size_and_one_domain_need_no_list() -> None:
    """`-e name=value` gives a string, whose digits and letters are no sizes and domains."""
    assert (
        sizes(batches.plan(fleet(60, 0, 1), sizes="25"))
        == sizes(batches.plan(fleet(60, 0, 1), sizes=25))
        == [25, 25, 10]
    )
    groups = {"all": ["a", "b", "c"], "rack": ["a", "b"]}
    assert batches.plan(groups, sizes=[3], domains="rack", share="10%") == [["a", "c"], ["b"]]


def test_the_last_host_of_a_small_domain_has_its_turn() -> None:
    groups = {"all": ["a", "b", "c"], "canary": [], "rack": ["a", "b"]}
    assert batches.plan(groups, sizes=[3], domains=["rack"], share="10%") == [["a", "c"], ["b"]]


@pytest.mark.parametrize(
    ("limit", "planned"),
    [
        ("web", [["d"], ["a", "b"]]),
        ("all:!canary", [["a"], ["b"]]),
        ("c,a", [["c"], ["a"]]),
        ("b", [["b"]]),
    ],
)
def test_limit_leaves_the_canaries_that_it_names(limit: str, planned: list[list[str]]) -> None:
    """Otherwise others would take their places in the first batch."""
    assert batches.plan(GROUPS, limit=limit) == planned


def test_limit_reads_a_file_as_ansible_does(tmp_path: Path) -> None:
    names = tmp_path / "left.retry"
    names.write_text("b\nc\n")
    assert batches.plan(GROUPS, limit=f"@{names}") == [["c"], ["b"]]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"sizes": [0]}, "thp_fleet_serial: 0 is neither"),
        ({"sizes": ["ten"]}, "thp_fleet_serial: 'ten' is neither"),
        ({"sizes": ["110%"]}, "thp_fleet_serial: '110%' is neither"),
        ({"domains": ["rack"]}, "thp_fleet_domains: the inventory has no group or host rack"),
        ({"domains": ["web"], "share": "0%"}, "thp_fleet_domain_share: '0%' is neither"),
    ],
)
def test_sizes_and_domains_that_are_none_are_mistakes(more: dict[str, object], message: str) -> None:
    with pytest.raises(AnsibleFilterError, match=message):
        batches.plan(GROUPS, **more)


@pytest.mark.parametrize(
    ("playbook", "expected"),
    [
        ("rollout", [1, 10, *[50] * 23, 39]),
        ("rollback", [1, 10, *[50] * 23, 39]),
        ("validate", [500, 500, 200]),
        ("survey", [500, 500, 200]),
    ],
)
def test_every_playbook_takes_a_large_fleet_in_batches(playbook: str, expected: list[int]) -> None:
    """Ansible remembers of a batch what its hosts answered, and a batch of thousands would be a lot."""
    (play,) = yaml.safe_load((collection.SOURCE / "playbooks" / f"{playbook}.yml").read_text())
    assert (play["hosts"], play["serial"]) == (
        "{{ __fleet_batches | flatten }}",
        "{{ __fleet_batches | map('length') }}",
    )
    jinja = jinja2.Environment()
    jinja.filters["kernel_thp.fleet.plan"] = fleet_filters.plan
    # Ansible's own.
    jinja.filters["flatten"] = lambda lists: list(itertools.chain.from_iterable(lists))
    expression = play["vars"]["__fleet_batches"].strip().removeprefix("{{").removesuffix("}}")
    assert sizes(jinja.compile_expression(expression)(groups=fleet(1200, 0, 1))) == expected
