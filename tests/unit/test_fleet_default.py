"""Which kernel is the default: an operator's pattern does not count as keeping one, and a rollback restores it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import bls, loaders
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.booting import Host

from tests.unit.boot_tree import NEW, OLD, Tree


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tree:
    return Tree(tmp_path, monkeypatch)


def set_default(value: str) -> None:
    subprocess.run(["bootctl", "set-default", value], check=True)


@pytest.mark.parametrize("mine", ["lab-*", f"lab-{OLD}*", "LAB-6.1.*.conf", None])
def test_whatever_the_operator_has_for_a_default_the_old_kernel_is_held_and_then_it_is_back(
    tree: Tree, mine: str | None
) -> None:
    if mine:
        set_default(mine)
    host = tree.begin(NEW)
    # As yet, no other entry matches. What counts is the one that is installed next.
    host.hold(600)
    tree.add(NEW)
    assert tree.default() == bls.pattern(loaders.find().entry(OLD))
    assert not loaders.find().kept(loaders.find().entry(NEW))
    tree.phase(records.ROLLING_BACK)
    assert not host.roll_back()
    host.restore()
    assert tree.default() == mine


def test_one_kernel_at_most_is_kept(tree: Tree) -> None:
    tree.add(NEW)
    loader = loaders.find()
    old, new = loader.entry(OLD), loader.entry(NEW)
    for mine, kept in (("lab-*", []), (f"lab-{NEW}*", []), (old.file, [old]), (bls.pattern(new), [new])):
        set_default(mine)
        assert [entry for entry in (old, new) if loader.kept(entry)] == kept, mine


def test_a_default_that_names_the_old_kernel_is_left_as_it_is(tree: Tree) -> None:
    set_default(f"lab-{OLD}.conf")
    tree.begin(NEW).hold(600)
    assert tree.default() == f"lab-{OLD}.conf"
    again = Host(tree.store)
    again.hold(600)
    assert not again.changed
