"""What a patch is compiled for: the files it changes, all of them after a header, folders after the last patch."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import series_check
from scripts.console import UserError
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


def write(folder: Path, slug: str, *names: str, line: str = "x") -> Path:
    path = folder / f"{slug}.patch"
    diffs = "".join(
        f"diff --git a/{name} b/{name}\n--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n+{line}\n" for name in names
    )
    path.write_text(f"Subject: mm: {slug}\n\nWhy.\n---\n\n{diffs}")
    return path


def test_a_key_covers_earlier_patches_of_the_same_files(tmp_path: Path) -> None:
    one = write(tmp_path, "one", "mm/vmscan.c", "mm/ksm.c")
    two = write(tmp_path, "two", "mm/rmap.c")
    three = write(tmp_path, "three", "mm/rmap.c", "mm/ksm.c")
    before = series_check.keys([one, two, three])
    write(tmp_path, "two", "mm/rmap.c", line="y")
    after = series_check.keys([one, two, three])
    assert {slug for slug in before if before[slug] != after[slug]} == {"two", "three"}


def test_an_inserted_patch_of_other_files_and_a_new_text_change_no_key(tmp_path: Path) -> None:
    one, two = write(tmp_path, "one", "mm/vmscan.c"), write(tmp_path, "two", "mm/vmscan.c")
    before = series_check.keys([one, two])
    one.write_text(one.read_text().replace("Why.", "Why, in other words."))
    after = series_check.keys([one, write(tmp_path, "new", "mm/ksm.c"), two])
    assert {slug: after[slug] for slug in before} == before


def test_variants_are_chosen_by_name() -> None:
    assert [variant.name for variant in series_check.chosen("memcg-off,thp-off")] == ["thp-off", "memcg-off"]
    assert series_check.chosen("") == list(series_check.VARIANTS)
    with pytest.raises(UserError, match=r"no variant thp.*thp-on,thp-off,memcg-off,i386,arm64"):
        series_check.chosen("thp")
