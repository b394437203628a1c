"""A page that is anonymous and that nothing accounts for is lost; on a real kernel: tests/kernel/test_lost_pages.py."""

from __future__ import annotations

import pytest

from tests.kernel import lost_pages

# By Documentation/admin-guide/mm/pagemap.rst.
REFERENCED, UPTODATE, LRU, SLAB, BUDDY, MMAP, ANON, SWAPCACHE = 2, 3, 5, 7, 10, 11, 12, 13
COMPOUND_HEAD, COMPOUND_TAIL, HWPOISON, NOPAGE, KSM, PGTABLE = 15, 16, 19, 20, 21, 26


def flags(*bits: int) -> int:
    return sum(1 << bit for bit in bits)


@pytest.mark.parametrize("bits", [(), (REFERENCED, UPTODATE, LRU), (COMPOUND_HEAD,)])
def test_an_anonymous_page_that_nobody_has_is_lost(bits: tuple[int, ...]) -> None:
    assert lost_pages.is_lost(flags(ANON, *bits))


@pytest.mark.parametrize("bit", [SLAB, BUDDY, MMAP, SWAPCACHE, COMPOUND_TAIL, HWPOISON, KSM, PGTABLE])
def test_a_page_that_somebody_has_is_not(bit: int) -> None:
    assert not lost_pages.is_lost(flags(ANON, LRU, bit))


@pytest.mark.parametrize("bits", [(), (NOPAGE,), (LRU, UPTODATE), (LRU, MMAP)])
def test_a_page_of_a_file_or_none_is_not(bits: tuple[int, ...]) -> None:
    assert not lost_pages.is_lost(flags(*bits))


def test_a_lost_page_is_named_by_its_number() -> None:
    pages = [flags(LRU), flags(ANON, LRU), flags(ANON, MMAP), flags(ANON)]
    assert lost_pages.lost(pages) == {1: flags(ANON, LRU), 3: flags(ANON)}
