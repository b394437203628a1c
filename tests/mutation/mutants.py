"""A mutant is the whole series without one patch, and the selftests which that patch names have to fail on it.

Usually it is the whole series with the patch's commit reverted. Where later patches build on it,
patches/<base>/undo/<slug>.patch takes its effect away from the whole series instead.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts import check_headers, series, tested
from scripts.console import UserError

PROGRAM = re.compile(r"^TEST_GEN_PROGS(?:_EXTENDED)? [:+]= (\S+)$", re.MULTILINE)
TEST = re.compile(r"\bTEST(?:_WITH)?\(\"([^\"]+)\"")


@dataclass(frozen=True)
class Mutant:
    """A patch, and the tests that its header says fail without it; `reason` says why there are none."""

    patch: Path
    tests: tuple[str, ...]
    reason: str

    @property
    def slug(self) -> str:
        return self.patch.stem

    @property
    def undo(self) -> Path:
        return self.patch.parent / "undo" / self.patch.name


def mutants(patches: Iterable[Path]) -> list[Mutant]:
    found = []
    for patch in patches:
        message = patch.read_text().partition("\n\n")[2].partition("\n---\n")[0]
        value = dict(check_headers.last_paragraph(message)).get("Proved-by", "none (no such line)")
        none = check_headers.NONE.fullmatch(value)
        tests = () if none else tuple(check_headers.names(value))
        found.append(Mutant(patch, tests, value if none else ""))
    return found


def chosen(every: Sequence[Mutant], slugs: Sequence[str]) -> list[Mutant]:
    known = [mutant.slug for mutant in every]
    wrong = tested.unknown(slugs, known)
    if wrong:
        raise UserError(f"there is no patch {wrong}", f"use one of {', '.join(known)}")
    return [mutant for mutant in every if not slugs or mutant.slug in slugs]


def take_away(tree: series.Tree, source: Path, mutant: Mutant, commit: str) -> str:
    """Take one patch out of the whole series in `source`; return how it was done."""
    undo = mutant.undo
    try:
        if undo.exists():
            tree.git("apply", str(undo), where=source)
            return f"undo/{undo.name}"
        tree.git("revert", "--no-commit", commit, where=source)
        return "revert"
    except subprocess.CalledProcessError as error:
        first = next((line for line in error.stderr.splitlines() if line.startswith("error:")), error.stderr.strip())
        what = f"{undo} does not apply" if undo.exists() else f"later patches build on {mutant.patch.name}"
        hint = f"{'fix' if undo.exists() else 'write'} {undo}, which takes its effect away from the whole series"
        raise UserError(f"{what} ({first})", hint) from error


# What a result depends on


class Sources:
    """The sources of the selftests, by test."""

    def __init__(self, folder: Path) -> None:
        programs = set(PROGRAM.findall((folder / "Makefile").read_text()))
        texts = {path: path.read_text() for path in sorted(folder.glob("*.[ch]"))}
        self.shared = [text for path, text in texts.items() if path.suffix == ".h" or path.stem not in programs]
        self.of_test = {test: text for path, text in texts.items() for test in TEST.findall(text)}

    def of(self, tests: Iterable[str]) -> list[str]:
        """Return what the programs of some tests are built from."""
        wrong = tested.unknown(list(tests), list(self.of_test))
        if wrong:
            raise UserError(f"no program has the test {wrong}", "fix Proved-by, or the test")
        return [*self.shared, *sorted({self.of_test[test] for test in tests})]


def key(mutant: Mutant, sources: Sources) -> str:
    """Name what the result of a mutant depends on. A change to another patch does not ask for it again."""
    undo = tested.diff(mutant.undo) if mutant.undo.exists() else ""
    tests = sorted(mutant.tests)
    return tested.key(tested.diff(mutant.patch), undo, " ".join(tests), *sources.of(tests))


def keys(every: Iterable[Mutant], sources: Sources) -> Mapping[str, str]:
    return {mutant.slug: key(mutant, sources) for mutant in every if mutant.tests}
