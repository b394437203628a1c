"""What a patch is compiled for: the files it changes, all of them after a header, folders after the last patch."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import series_check
from scripts.series_check import Prefix, Variant

EVERYWHERE = ["mm/huge_memory.c", "mm/vmscan.c", "arch/arm64/kvm/mmu.c"]
MAKEFILE = "obj-y := vmscan.o\nobj-$(CONFIG_THP) += huge_memory.o khugepaged.o\n"


@pytest.fixture
def variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Variant:
    monkeypatch.setattr(series_check, "WORK", tmp_path)
    monkeypatch.setattr(series_check, "SOURCE", tmp_path / "src")
    for name in EVERYWHERE:
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        (path.parent / "Makefile").write_text(MAKEFILE)
    made = Variant("thp-on")
    made.out.mkdir()
    (made.out / ".config").write_text("CONFIG_THP=y\n")
    return made


def goals(variant: Variant, *changed: str, last: bool = False) -> list[str]:
    return Prefix("toy", "c0", "t0", changed, last).goals(variant, EVERYWHERE)


def test_a_file_is_compiled_alone(variant: Variant) -> None:
    assert goals(variant, "mm/vmscan.c", "Documentation/vm.rst") == ["mm/vmscan.o"]


def test_a_header_concerns_all_that_the_series_changes(variant: Variant) -> None:
    assert goals(variant, "include/linux/mm.h") == ["mm/huge_memory.o", "mm/vmscan.o"]


def test_text_is_not_compiled(variant: Variant) -> None:
    assert goals(variant, "Documentation/vm.rst", "tools/testing/a.c") == []


def test_another_architecture_is_left_to_its_variant(variant: Variant) -> None:
    assert goals(variant, "arch/arm64/kvm/mmu.c") == []
    arm64 = Variant("arm64", arch="arm64")
    arm64.out.mkdir()
    (arm64.out / ".config").write_text("")
    assert goals(arm64, "arch/arm64/kvm/mmu.c") == ["arch/arm64/kvm/mmu.o"]


def test_what_is_configured_out_is_not_compiled(variant: Variant) -> None:
    (variant.out / ".config").write_text("# CONFIG_THP is not set\n")
    assert goals(variant, "mm/huge_memory.c", "mm/vmscan.c") == ["mm/vmscan.o"]


def test_after_the_last_patch_whole_folders_are_compiled(variant: Variant) -> None:
    assert goals(variant, "mm/vmscan.c", last=True) == ["mm/", "mm/huge_memory.o", "mm/vmscan.o"]


def test_a_stamp_ends_with_what_it_was_made_for(variant: Variant) -> None:
    one = Prefix("toy", "c0", "t0", ("mm/vmscan.c",), False)
    same = Prefix("toy", "other commit", "t0", ("mm/vmscan.c",), False)
    other = Prefix("toy", "c0", "t1", ("mm/vmscan.c",), False)
    assert one.stamp(variant) == same.stamp(variant) != other.stamp(variant)
