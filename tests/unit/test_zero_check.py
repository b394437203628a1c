"""The benchmark of the zero check: it takes whole functions from the kernel's source, and what they measure is read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bench import zero_check
from bench.zero_check import definition, extract
from scripts.console import UserError

# The least that the benchmark compiles, and the shapes that the kernel's source has.
KERNEL = Path(__file__).parent / "zero_check"
TEXTS = [zero_check.COMMENT.sub("", (KERNEL / name).read_text()) for name in zero_check.SOURCES]
HUGE_MEMORY = TEXTS[0]


@pytest.mark.parametrize(
    ("name", "first", "last", "lines"),
    [
        ("STEP", "#define STEP\t8", "#define STEP\t8", 1),
        ("TWICE", "#define TWICE(x)\t\\", "\t (x))", 3),
        ("words_zero", "static __always_inline bool", "}", 9),
        ("page_zero_filled", "static bool page_zero_filled(struct page *page)", "}", 4),
    ],
)
def test_a_definition_is_found_whole(name: str, first: str, last: str, lines: int) -> None:
    found = definition(name, HUGE_MEMORY).splitlines()
    assert (found[0], found[-1], len(found)) == (first, last, lines)


@pytest.mark.parametrize("name", ["in_comment", "memchr_inv", "kmap_local_page", "zero", "size"])
def test_what_is_only_named_is_no_definition(name: str) -> None:
    assert definition(name, HUGE_MEMORY) == ""


def test_what_a_function_needs_comes_before_it() -> None:
    found = extract(["page_zero_filled"], TEXTS, [])
    needed = ("#define STEP", "#define TWICE", "memchr_inv(const", "\nwords_zero(const", "page_zero_filled(struct")
    places = [found.index(text) for text in needed]
    assert max(places[:3]) < places[3] < places[4]
    assert "caller" not in found


def test_what_is_known_is_not_taken_from_the_source() -> None:
    assert "memchr_inv(const" not in extract(["page_zero_filled"], TEXTS, ["memchr_inv"])


def test_the_first_file_counts() -> None:
    assert "!page_zero_filled" not in extract(["caller"], TEXTS, [])
    assert "!page_zero_filled" in extract(["caller"], TEXTS[1:], [])


@pytest.mark.parametrize("name", ["in_comment", "missing"])
def test_a_function_that_is_not_there_is_an_error(name: str) -> None:
    with pytest.raises(UserError, match=rf"the kernel's source has no {name}\(\)"):
        extract([name], [(KERNEL / zero_check.SOURCES[0]).read_text()], [])


def test_a_folder_without_a_kernel_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"there is no mm/huge_memory\.c in"):
        zero_check.extracted(tmp_path)


def changed(folder: Path, old: str, new: str) -> Path:
    """Make a kernel whose page_zero_filled() is another one."""
    source = Path(shutil.copytree(KERNEL, folder / "linux"))
    path = source / "mm" / "huge_memory.c"
    path.write_text(path.read_text().replace(old, new))
    return source


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("return !memchr_inv", "return memchr_inv", "a page of zeros"),
        ("0, size)", "0, size - 1)", "a page with one byte that is not zero"),
    ],
)
def test_a_check_that_is_wrong_is_not_measured(old: str, new: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"measured nothing: patch is wrong about {why}"):
        zero_check.measure(changed(tmp_path, old, new), tmp_path)


def test_source_that_needs_more_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"zero_check_kernel\.o failed"):
        zero_check.build(changed(tmp_path, "return !memchr_inv", "return page_folio"), tmp_path)


def test_rates_are_read_and_their_median_counts() -> None:
    rates = zero_check.read_rates("rate patch 4 10.0\nrate patch 4 30.5\nrate patch 4 20.0\nrate sum 2048 1.5\nelse\n")
    assert rates == {4: {"patch": 20.0}, 2048: {"sum": 1.5}}
