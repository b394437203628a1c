"""The kernel's check for underused huge pages gives the verdict of a plain count, whatever the pattern.

The functions are taken from the patched source as it is, and compiled for user space.
"""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts import lock, series

HARNESS = Path(__file__).with_name("underused_check.c")
# In the order in which they call each other.
FUNCTIONS = (
    "words_zero",
    "ends_zero",
    "middle_zero",
    "page_zero",
    "page_zero_filled",
    "page_looks_zero",
    "find_zero_subpages",
    "thp_well_used",
    "thp_ends_deceive",
    "thp_looks_underused",
)
PAGES, WORDS, LINE = 512, 512, 8
# A few pages are read to the end before a huge page is unmapped.
SAMPLED = range(0, PAGES, 73)
PATTERNS = 3000
ZERO = -1


def function(source: str, name: str) -> str:
    found = re.search(rf"^static [^\n;]*\b{name}\([^;{{]*\)\n\{{\n.*?^\}}\n", source, re.MULTILINE | re.DOTALL)
    assert found, f"mm/huge_memory.c has no {name}()"
    return found[0]


@dataclass(frozen=True)
class Pattern:
    """Which word of each page is not zero, if any."""

    threshold: int
    keeps_pmds: bool
    words: tuple[int, ...]

    @property
    def zero(self) -> list[bool]:
        return [word == ZERO for word in self.words]

    @property
    def deceives(self) -> bool:
        """Are as many of the sampled pages used in the middle only as are enough for a huge page in use?"""
        found = sum(LINE <= self.words[page] < WORDS - LINE for page in SAMPLED)
        return found * PAGES >= len(SAMPLED) * (PAGES - self.threshold)

    def line(self) -> str:
        return " ".join(map(str, (self.threshold, int(self.keeps_pmds), *self.words)))


@dataclass(frozen=True)
class Answer:
    looks_underused: bool
    underused: bool
    bits: list[bool]

    @classmethod
    def of(cls, line: str) -> Answer:
        looks, underused, *longs = line.split()
        value = sum(int(text, 16) << 64 * place for place, text in enumerate(longs))
        return cls(looks == "1", underused == "1", [bool(value >> page & 1) for page in range(PAGES)])


class Check:
    """The compiled functions."""

    def __init__(self, source: str, folder: Path) -> None:
        numbers = re.findall(r"^#define ZERO_(?:CHECK_WORDS|SAMPLES)\s.*\n", source, re.MULTILINE)
        assert len(numbers) == 2
        text = "".join(numbers) + "\n".join(function(source, name) for name in FUNCTIONS)
        (folder / "check.h").write_text(text)
        self.program = folder / "check"
        command = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-I", folder, "-o", self.program, HARNESS]
        subprocess.run(command, check=True)

    def answers(self, patterns: Sequence[Pattern]) -> list[Answer]:
        text = "".join(f"{pattern.line()}\n" for pattern in patterns)
        done = subprocess.run([self.program], input=text, capture_output=True, text=True, check=True)
        return [Answer.of(line) for line in done.stdout.splitlines()]


def some_word(chance: random.Random) -> int:
    """Return a word of a page; its ends and what is next to them come often."""
    edges = (0, LINE - 1, LINE, WORDS - LINE - 1, WORDS - LINE, WORDS - 1)
    return chance.choice(edges) if chance.random() < 0.5 else chance.randrange(WORDS)


def patterns() -> Iterator[Pattern]:
    """Yield patterns, most of which have nearly as many zero-filled pages as the threshold."""
    chance = random.Random(17)
    for _ in range(PATTERNS):
        threshold = chance.choice((0, 1, 255, 409, 410, 510, 511, chance.randrange(PAGES)))
        zeros = min(PAGES, max(0, threshold + chance.choice((-2, -1, 0, 1, 2, chance.randrange(-PAGES, PAGES)))))
        words = [ZERO] * zeros + [some_word(chance) for _ in range(PAGES - zeros)]
        if chance.random() < 0.8:
            chance.shuffle(words)
        yield Pattern(threshold, chance.random() < 0.5, tuple(words))


def wrong(check: Check) -> list[str]:
    """Return what is wrong with the answers."""
    found = []
    every = list(patterns())
    for pattern, answer in zip(every, check.answers(every)):
        zeros = f"{sum(pattern.zero)} zeros and a threshold of {pattern.threshold}"
        underused = sum(pattern.zero) > pattern.threshold
        if answer.bits != pattern.zero:
            found.append(f"{sum(answer.bits)} of {sum(pattern.zero)} zero-filled pages")
        if answer.underused != underused:
            found.append(f"the verdict is {answer.underused}, with {zeros}")
        if underused and not answer.looks_underused:
            found.append(f"looks used, with {zeros}")
        if answer.looks_underused and not underused and (pattern.deceives or not pattern.keeps_pmds):
            found.append(f"looks underused, with {zeros}")
        seen = sum(word != ZERO and (word < LINE or word >= WORDS - LINE) for word in pattern.words)
        if answer.looks_underused and seen >= PAGES - pattern.threshold:
            found.append(f"looks underused, with {seen} pages used at their ends")
    return found


@pytest.fixture(scope="module")
def source() -> str:
    _, tree = series.place(lock.used())
    return (tree.folder / "mm" / "huge_memory.c").read_text()


def test_the_verdict_is_that_of_a_plain_count(source: str, tmp_path: Path) -> None:
    assert not wrong(Check(source, tmp_path))


@pytest.mark.parametrize(
    ("right", "mutant"),
    [
        ("++nr_used >= HPAGE_PMD_NR - max_zero", "++nr_used > HPAGE_PMD_NR - max_zero"),
        ("++nr_used >= HPAGE_PMD_NR - max_zero", "++nr_used + 1 >= HPAGE_PMD_NR - max_zero"),
        ("words_zero(last) && words_zero(word)", "words_zero(last)"),
        ("word += ZERO_CHECK_WORDS; word < last", "word += 2 * ZERO_CHECK_WORDS; word < last"),
        ("word[6] | word[7]", "word[6]"),
        ("!thp_well_used(folio, false)", "!thp_well_used(folio, true)"),
        ("++nr_used > HPAGE_PMD_NR - nr_wanted", "++nr_used >= HPAGE_PMD_NR - nr_wanted"),
        ("++nr_used > HPAGE_PMD_NR - nr_wanted", "++nr_used > HPAGE_PMD_NR - nr_wanted + 1"),
        ("(HPAGE_PMD_NR / (ZERO_SAMPLES - 1)) | 1", "HPAGE_PMD_NR / ZERO_SAMPLES"),
        ("HPAGE_PMD_NR >= nr_samples * min_used", "HPAGE_PMD_NR > nr_samples * (min_used + 64)"),
    ],
)
def test_a_wrong_check_is_noticed(right: str, mutant: str, source: str, tmp_path: Path) -> None:
    assert source.count(right) == 1, right
    assert wrong(Check(source.replace(right, mutant), tmp_path))
