"""A build that cannot work is refused before it begins, and one that is not needed is not made."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from scripts import config, lock, rpms
from scripts.console import UserError
from scripts.flavours import FLAVOURS, SERVER, Flavour

KERNELS = [rpms.kernel(flavour) for flavour in FLAVOURS.values()]


def test_missing_tools_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpms, "TOOLS", ("sh", "no-such-tool"))
    with pytest.raises(UserError, match=r"lacks no-such-tool; run `make deps`"):
        rpms.check_host(rpms.NEEDED_GIB)


def test_full_disk_is_named() -> None:
    with pytest.raises(UserError, match=r"GiB free, a build needs 1073741824"):
        rpms.check_host(1 << 30)


def test_stamp_looks_at_content_and_not_at_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpms, "ROOT", tmp_path)
    spec = tmp_path / "a.spec"
    spec.write_text("spec")
    test = tmp_path / "test.c"
    test.write_text("one")
    stage = rpms.Stage("toy", (), (test,), spec=spec, packed=tmp_path)
    before = rpms.digest(stage)
    os.utime(test, (1, 1))
    assert rpms.digest(stage) == before
    test.write_text("two")
    assert rpms.digest(stage) != before


def test_a_changed_selftest_does_not_rebuild_the_kernel() -> None:
    selftests = set(rpms.selftests().inputs)
    assert all(path.is_relative_to(rpms.TESTS) for path in selftests)
    for stage in (*KERNELS, rpms.on_base(config.complete(SERVER))):
        assert not selftests & set(stage.inputs)


@pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=lambda flavour: flavour.name)
def test_a_flavour_is_built_from_its_own_configuration(flavour: Flavour) -> None:
    inputs = rpms.kernel(flavour).inputs
    for other in FLAVOURS.values():
        assert (config.complete(other) in inputs) == (other == flavour)


def test_a_changed_profile_rebuilds_the_profiles_and_nothing_else() -> None:
    profiles = set(rpms.tuned_profiles().inputs)
    assert rpms.TUNED / "thp-shrinker" / "tuned.conf" in profiles
    for stage in (*KERNELS, rpms.selftests(), rpms.on_base(config.complete(SERVER))):
        assert not profiles & set(stage.inputs)


def test_a_changed_tool_rebuilds_the_tools_and_nothing_else() -> None:
    tools = set(rpms.tools().inputs)
    assert rpms.THP_TOOLS / "thp-validate" in tools
    for stage in (*KERNELS, rpms.selftests(), rpms.on_base(config.complete(SERVER))):
        assert not tools & set(stage.inputs)


def test_same_selftests_give_the_same_archive(tmp_path: Path) -> None:
    for name in ("one.tar", "two.tar"):
        rpms.pack(rpms.TESTS, "thp", tmp_path / name)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()


def test_spin_is_a_number_and_1_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPIN", raising=False)
    assert rpms.spin() == 1
    monkeypatch.setenv("SPIN", "2")
    assert rpms.spin() == 2
    for wrong in ("0", "-1", "two", "1.5"):
        monkeypatch.setenv("SPIN", wrong)
        with pytest.raises(UserError, match=f"SPIN={wrong} is not a number of 1 or more"):
            rpms.spin()


@pytest.mark.parametrize("stage", [rpms.tuned_profiles(), rpms.tools()], ids=lambda stage: stage.name)
def test_next_spin_is_another_build(stage: rpms.Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPIN", raising=False)
    before = rpms.digest(stage)
    assert "%{!?spin:%global spin 1}\n" in rpms.spec_text(stage)
    monkeypatch.setenv("SPIN", "2")
    assert rpms.digest(stage) != before
    assert "%{!?spin:%global spin 2}\n" in rpms.spec_text(stage)


@pytest.mark.parametrize("wrong", ["packages.example.org", "https://a b/", "https://host/%{name}"])
def test_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    monkeypatch.setenv("REPO_URL", wrong)
    with pytest.raises(UserError, match=r"is not the address of a repository; give one such as https://host/path"):
        rpms.spec_text(rpms.tools())


@pytest.mark.parametrize(("kind", "url"), [(lock.KERNEL_ORG, "https://cdn.kernel.org/"), (lock.DEBIAN, "%{nil}}")])
def test_only_the_release_has_the_address_of_the_release(monkeypatch: pytest.MonkeyPatch, kind: str, url: str) -> None:
    used = replace(lock.used(), kind=kind, package="")
    monkeypatch.setattr(lock, "used", lambda: used)
    assert f"%{{!?source_url:%global source_url {url}" in rpms.spec_text(rpms.selftests())
