"""What the blocks of memory hold: on made-up memory, and on that of this host where root runs the tests."""

from __future__ import annotations

import os
import re
from array import array
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.thp_validate import blocks, facts, report
from tools.thp_validate.blocks import Blocks
from tools.thp_validate.system import System

PAGE = os.sysconf("SC_PAGE_SIZE")
SUBPAGES = 512
# Flags of a page as Linux 6.1 shows them.
FREE = 1 << 10
CACHE = 1 << 5 | 1 << 3 | 1 << 2
PROGRAM = 1 << 5 | 1 << 11 | 1 << 12 | 1 << 14
HUGE_TAIL = 1 << 12 | 1 << 16 | 1 << 22
CACHE_TAIL = 1 << 16 | 1 << 22
SLAB = 1 << 7
TABLE = 1 << 26
HUGE_ZERO_PAGE = 1 << 16 | 1 << 22 | 1 << 24
HOLE = 1 << 20
ON_CPU_LIST = 0
COMPRESSED = 1 << 35
BALLOON = 1 << 23 | 1 << 0
# One block of each kind.
EACH = {
    "free": {FREE: 512},
    "movable": {FREE: 12, CACHE: 500},
    "hostage": {CACHE: 511, SLAB: 1},
    "mixed": {CACHE: 400, SLAB: 112},
    "unmovable": {FREE: 12, SLAB: 500},
}
FRAGMENTED = "          fragmented before vm.defrag_mode was on, or since"
Pages = dict[int, int]


def zone(first: int, pages: int) -> str:
    return f"Node 0, zone   Normal\n  pages free     1\n        spanned  {pages}\n  start_pfn:           {first}\n"


class Memory:
    """A recorded tree with memory of which each block has given pages."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / "proc" / "kpageflags"
        self.path.parent.mkdir()
        self.write("sys/kernel/mm/transparent_hugepage/hpage_pmd_size", str(SUBPAGES * PAGE))
        self.write("proc/sys/kernel/osrelease", "6.1.187-1.x86_64+thp")
        self.mode("1")

    def write(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(f"{text}\n")

    def mode(self, value: str | None) -> None:
        """Set the mode, or have a kernel without it."""
        if value is None:
            (self.root / "proc/sys/vm/defrag_mode").unlink()
        else:
            self.write("proc/sys/vm/defrag_mode", value)

    def hold(self, held: Sequence[Pages], zones: str = "") -> None:
        words = array("Q", [word for pages in held for word, count in pages.items() for _ in range(count)])
        self.path.write_bytes(words.tobytes())
        self.write("proc/zoneinfo", zones or zone(0, len(words)))

    def facts(self) -> facts.Facts:
        return facts.collect(System(self.root))

    def blocks(self) -> Blocks:
        found = self.facts().blocks
        assert found is not None
        return found

    def line_after_blocks(self) -> str:
        lines = report.as_text(self.facts(), []).splitlines()
        return lines[next(number for number, line in enumerate(lines) if line.startswith("blocks ")) + 1]


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path)


# Kinds


@pytest.mark.parametrize(
    ("pages", "kind"),
    [
        ({FREE: 512}, "free"),
        ({FREE: 511, CACHE: 1}, "movable"),
        ({PROGRAM: 512}, "movable"),
        # On its way to the list of reclaim.
        ({PROGRAM & ~(1 << 5): 512}, "movable"),
        ({PROGRAM | 1 << 15: 1, HUGE_TAIL: 511}, "movable"),
        ({CACHE | 1 << 15: 1, CACHE_TAIL: 511}, "movable"),
        ({FREE: 511, SLAB: 1}, "hostage"),
        ({CACHE: 461, SLAB: 51}, "hostage"),
        ({CACHE: 460, SLAB: 52}, "mixed"),
        ({CACHE: 1, TABLE: 511}, "mixed"),
        ({FREE: 460, SLAB: 52}, "unmovable"),
        ({SLAB: 512}, "unmovable"),
        ({HUGE_ZERO_PAGE: 512}, "unmovable"),
    ],
)
def test_a_block_is_of_the_kind_of_its_pages(memory: Memory, pages: Pages, kind: str) -> None:
    memory.hold([pages])
    found = memory.blocks()
    assert (found.sampled, found.doubtful) == (1, 0)
    assert {name: getattr(found, name) for name in EACH} == {**dict.fromkeys(EACH, 0), kind: 1}


@pytest.mark.parametrize(
    ("pages", "doubtful"),
    [
        ({CACHE: 511, ON_CPU_LIST: 1}, 1),
        ({CACHE: 400, ON_CPU_LIST: 112}, 1),
        ({CACHE: 400, COMPRESSED: 12, ON_CPU_LIST: 100}, 1),
        ({CACHE: 400, BALLOON: 112}, 1),
        ({CACHE: 400, ON_CPU_LIST: 111, SLAB: 1}, 0),
        # These are in no doubt of what counts: nothing shares the block.
        ({FREE: 400, ON_CPU_LIST: 112}, 0),
    ],
)
def test_pages_that_only_look_unmovable_leave_a_doubt(memory: Memory, pages: Pages, doubtful: int) -> None:
    memory.hold([pages])
    found = memory.blocks()
    assert found.doubtful == doubtful
    assert found.spread == found.hostage + found.mixed - doubtful


def test_blocks_with_holes_are_left_out(memory: Memory) -> None:
    memory.hold([{FREE: 511, HOLE: 1}, {HOLE: 512}, {FREE: 512}, {FREE: 100}])
    assert (memory.blocks().sampled, memory.blocks().free) == (1, 1)


def test_a_block_is_as_large_as_a_huge_page(memory: Memory) -> None:
    memory.hold([{FREE: 512}, {SLAB: 512}])
    memory.write("sys/kernel/mm/transparent_hugepage/hpage_pmd_size", str(1024 * PAGE))
    found = memory.blocks()
    assert (found.block_bytes, found.sampled, found.unmovable) == (1024 * PAGE, 1, 1)


# Where memory is


@pytest.mark.parametrize(
    ("zoneinfo", "expected"),
    [
        (zone(0, 1024), [range(0, 2)]),
        (zone(1, 4095) + zone(4096, 512), [range(0, 8), range(8, 9)]),
        (zone(1048576, 512) + zone(0, 512), [range(0, 1), range(2048, 2049)]),
        # Two zones in the same block.
        (zone(0, 700) + zone(700, 324), [range(0, 2)]),
        (zone(0, 2048) + zone(512, 512) + zone(1024, 2048), [range(0, 4), range(4, 6)]),
        # A zone without memory has no start.
        ("Node 0, zone DMA\n        spanned  0\n" + zone(512, 512), [range(1, 2)]),
        ("", []),
    ],
)
def test_zones_have_the_blocks(zoneinfo: str, expected: list[range]) -> None:
    assert blocks.zones(zoneinfo, SUBPAGES) == expected


def test_only_memory_in_zones_is_read(memory: Memory) -> None:
    held = [EACH["free"], EACH["mixed"], EACH["mixed"], EACH["unmovable"]]
    memory.hold(held, zone(0, 512) + zone(3 * 512, 512))
    found = memory.blocks()
    assert (found.sampled, found.free, found.mixed, found.unmovable) == (2, 1, 0, 1)


# The sample


def test_up_to_the_limit_every_block_is_chosen_once() -> None:
    areas = [range(0, 3), range(10, 14)]
    assert list(blocks.chosen(areas, 7)) == [*areas[0], *areas[1]]
    assert list(blocks.chosen([], 7)) == []


def test_of_more_one_random_block_of_each_part_is_chosen() -> None:
    areas = [range(0, 10), range(100, 140)]
    memory = [*areas[0], *areas[1]]
    seen = Counter[int]()
    for _ in range(300):
        found = list(blocks.chosen(areas, 10))
        assert [memory.index(block) // 5 for block in found] == list(range(10))
        seen.update(found)
    # Each has been chosen by 60 of 300 runs on average.
    assert set(seen) == set(memory)
    assert max(seen.values()) < 120


def test_a_large_host_is_sampled_and_its_shares_are_right(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "PAGES", 20 * SUBPAGES)
    memory.hold([EACH["free"]] * 20)
    assert (memory.blocks().sampled, memory.blocks().complete) == (20, True)
    memory.hold([EACH["free"]] * 40 + [EACH["mixed"]] * 20)
    found = memory.blocks()
    assert (found.sampled, found.complete) == (20, False)
    assert abs(found.mixed - 20 / 3) < 1


# Reports


def test_the_report_has_the_shares(memory: Memory) -> None:
    memory.hold([EACH["free"]] * 6 + list(EACH.values()) * 2)
    found = memory.facts()
    line = "blocks    50 % free, 12 % movable, 12 % hostage, 12 % mixed, 12 % unmovable, of 16 blocks"
    assert line in report.as_text(found, []).splitlines()
    kinds = {"free": 8, "movable": 2, "hostage": 2, "mixed": 2, "unmovable": 2, "doubtful": 0, "fragmented": True}
    expected = {"block_bytes": SUBPAGES * PAGE, "complete": True, "sampled": 16, **kinds}
    assert report.as_json(found, [])["blocks"] == expected


@pytest.mark.parametrize(
    ("held", "fragmented"),
    [
        ([EACH["free"]] * 9 + [EACH["hostage"]], False),
        ([EACH["free"]] * 8 + [EACH["hostage"]], True),
        ([EACH["movable"]] * 8 + [EACH["mixed"]], True),
        ([EACH["free"]] * 16 + [EACH["hostage"], EACH["mixed"]], True),
        ([EACH["unmovable"]] * 9 + [EACH["hostage"]], False),
        ([{CACHE: 511, ON_CPU_LIST: 1}] * 10, False),
    ],
)
@pytest.mark.parametrize("mode", ["1", "0", None])
def test_spread_unmovable_pages_fragment_memory(
    memory: Memory, held: Sequence[Pages], fragmented: bool, mode: str | None
) -> None:
    memory.hold(held)
    memory.mode(mode)
    found = memory.facts()
    assert report.as_json(found, [])["blocks"]["fragmented"] is fragmented
    # Only the mode can be switched on earlier.
    assert (memory.line_after_blocks().startswith(FRAGMENTED)) == (fragmented and mode == "1")


@pytest.mark.parametrize(
    ("uname", "word"),
    [
        ("6.1.187-1.x86_64+thp", "defrag_mode=1"),
        ("6.1.187-1.x86_64+thp.cloud", "defrag_mode=1"),
        ("6.18.3", "sysctl.vm.defrag_mode=1"),
    ],
)
def test_the_report_says_how_to_boot_a_fragmented_host(memory: Memory, uname: str, word: str) -> None:
    memory.hold([EACH["free"]] * 3 + [EACH["hostage"]])
    memory.write("proc/sys/kernel/osrelease", uname)
    assert memory.line_after_blocks() == f"{FRAGMENTED}: boot with {word} on the kernel command line"
    memory.write("proc/cmdline", f"ro {word} quiet")
    assert memory.line_after_blocks().strip().startswith(f"fragmented although booted with {word}: unmovable memory")


@pytest.mark.parametrize(
    ("uname", "words"),
    [("6.18.3", "defrag_mode=1"), ("6.1.187-1.x86_64+thp", "defrag_mode=1 defrag_mode=0"), ("6.18.3", "quiet")],
)
def test_a_word_that_did_not_switch_the_mode_on_changes_no_advice(memory: Memory, uname: str, words: str) -> None:
    memory.hold([EACH["free"]] * 3 + [EACH["hostage"]])
    memory.write("proc/sys/kernel/osrelease", uname)
    memory.write("proc/cmdline", words)
    assert memory.line_after_blocks().startswith(FRAGMENTED)


@pytest.mark.parametrize("mode", ["1", "0", None])
def test_blocks_that_cannot_be_read_are_left_out(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, mode: str | None
) -> None:
    memory.hold([EACH["free"]])
    memory.mode(mode)

    def refuse(*_: object) -> bytes:
        raise PermissionError(1, "not allowed")

    monkeypatch.setattr(os, "pread", refuse)
    found = memory.facts()
    assert found.blocks is None
    assert blocks.KPAGEFLAGS not in found.unseen
    assert "blocks  " not in report.as_text(found, [])
    assert report.as_json(found, [])["blocks"] is None


@pytest.mark.parametrize("name", ["proc/kpageflags", "proc/zoneinfo"])
def test_a_kernel_without_these_files_has_no_blocks(memory: Memory, name: str) -> None:
    memory.hold([EACH["free"]])
    (memory.root / name).unlink()
    assert memory.facts().blocks is None


def test_without_huge_pages_there_are_no_blocks(memory: Memory) -> None:
    memory.hold([EACH["free"]])
    (memory.root / "sys/kernel/mm/transparent_hugepage/hpage_pmd_size").unlink()
    assert memory.facts().blocks is None


# This host


def counted_by_the_kernel() -> int:
    """Return the free blocks of /proc/zoneinfo, 0 if it has no such figure."""
    huge = int(Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").read_text())
    found = re.findall(r"^\s+nr_free_pages_blocks (\d+)$", Path("/proc/zoneinfo").read_text(), re.MULTILINE)
    return sum(map(int, found)) * PAGE // huge


@pytest.mark.skipif(not os.access("/proc/kpageflags", os.R_OK), reason="needs root and /proc/kpageflags")
def test_free_blocks_are_those_that_this_kernel_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "PAGES", 1 << 40)
    before, found, after = counted_by_the_kernel(), facts.collect(System()).blocks, counted_by_the_kernel()
    if not before or found is None:
        pytest.skip("this kernel does not count its free blocks")
    assert found.complete
    # Programs go on meanwhile.
    slack = found.sampled // 20
    assert min(before, after) - slack <= found.free <= max(before, after) + slack
