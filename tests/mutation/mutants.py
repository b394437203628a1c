"""A mutant is the whole series with one hazard put back, by patches/<base>/mutants/<slug>.patch.

Above its diff stand the fields of patches/README.md: the hazard, the patches that guard against it, and the selftests
that have to fail on the mutant, each with the message by which it does.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts import check_headers, series, tested
from scripts.console import UserError
from tests.programs import Sources

FOLDER = "mutants"
# What a mutant may need beyond the kernel for direct boots.
LOCKDEP = "lockdep"
NEEDS = (LOCKDEP,)
FIELD = re.compile(r"([A-Z][a-z]+): (\S.*)")
# The fields, in the order a file has them; Fails once for each test, the last two if they are needed.
HEADER = re.compile(r"Hazard Guards (Fails )+(Needs )?(Runs )?")
HAZARD = re.compile(r"(?:([A-Z]\d+(?:, [A-Z]\d+)*): )?(\S.*[^.\s])")
FAILS = re.compile(r"(\S+): (\S.*)")
# What is said of a test whatever the hazard. A pattern that matches it would take any failure for the expected one.
UNTOLD = (
    "",
    "killed by signal 9",
    "no result within 30 seconds",
    "the kernel hung or the program died",
    "Oops: 0000 [#1]",
)
RUNS = re.compile(r"([1-9]\d*) of ([1-9]\d*)")


@dataclass(frozen=True)
class Failure:
    """A test, and the pattern of what it or the kernel says when it fails."""

    test: str
    message: str

    def matches(self, said: str) -> bool:
        return re.search(self.message, said) is not None


@dataclass(frozen=True)
class Mutant:
    """`ids` are rows of the table in patches/README.md. Of `runs` runs of a race, `seen` were seen to fail."""

    path: Path
    hazard: str
    guards: tuple[str, ...]
    fails: tuple[Failure, ...]
    ids: tuple[str, ...] = ()
    needs: str = ""
    seen: int = 1
    runs: int = 1

    @property
    def slug(self) -> str:
        return self.path.stem

    @property
    def tests(self) -> tuple[str, ...]:
        return tuple(failure.test for failure in self.fails)


def parse(path: Path) -> Mutant:
    """Read a file; what is not in the vocabulary is an error."""
    header, _, diff = path.read_text().partition("\n\n")
    fields = [FIELD.fullmatch(line) for line in header.splitlines()]
    names = "".join(f"{field[1]} " if field else "? " for field in fields)
    if not HEADER.fullmatch(names) or not diff.startswith("diff --git "):
        raise wrong(path, f"it begins with '{names.strip()}', not with the fields of a mutant and an empty line")
    values: dict[str, list[str]] = {}
    for field in fields:
        if field:
            values.setdefault(field[1], []).append(field[2])
    hazard, runs = HAZARD.fullmatch(values["Hazard"][0]), RUNS.fullmatch(values.get("Runs", ["1 of 1"])[0])
    fails = [FAILS.fullmatch(value) for value in values["Fails"]]
    if hazard is None or runs is None or int(runs[1]) > int(runs[2]):
        raise wrong(path, "Hazard: ends with a full stop, or Runs: is not '3 of 10'")
    return Mutant(
        path,
        hazard[2],
        tuple(check_headers.names(values["Guards"][0])),
        tuple(failure(path, match) for match in fails),
        tuple(check_headers.names(hazard[1] or "")),
        values.get("Needs", [""])[0],
        int(runs[1]),
        int(runs[2]),
    )


def failure(path: Path, match: re.Match[str] | None) -> Failure:
    if match is None:
        raise wrong(path, "Fails: is not 'test: message'")
    found = Failure(match[1], match[2])
    try:
        vague = any(found.matches(text) for text in UNTOLD)
    except re.error as error:
        raise wrong(path, f"'{found.message}' is no pattern ({error})") from None
    if vague:
        raise wrong(path, f"'{found.message}' matches what a test says that dies for any reason")
    return found


def wrong(path: Path, what: str) -> UserError:
    return UserError(f"{path.parent.name}/{path.name}: {what}", "fix it; patches/README.md has the rules")


def mutants(folder: Path) -> list[Mutant]:
    """Return the mutants of a series, by name."""
    return [parse(path) for path in sorted((folder / FOLDER).glob("*.patch"))]


def chosen(every: Sequence[Mutant], names: Sequence[str], patches: Sequence[str]) -> list[Mutant]:
    """Return the mutants of these names, those that patches of these names guard against, or all."""
    known = [*(mutant.slug for mutant in every), *(patch for mutant in every for patch in mutant.guards)]
    stranger = tested.unknown([*names, *patches], known)
    if stranger:
        raise UserError(f"there is no mutant {stranger}, and none that it guards against", "see docs/hazards.md")
    if not names and not patches:
        return list(every)
    return [mutant for mutant in every if mutant.slug in names or set(mutant.guards) & set(patches)]


# What a series says about its tests, and its mutants show


def claimed(patch: Path) -> list[str]:
    """Return the tests that a patch names in Proved-by."""
    message = patch.read_text().partition("\n\n")[2].partition("\n---\n")[0]
    value = dict(check_headers.last_paragraph(message)).get("Proved-by", "none (no such line)")
    return [] if check_headers.NONE.fullmatch(value) else check_headers.names(value)


def problems(
    every: Sequence[Mutant], patches: Sequence[Path], tests: Collection[str], ids: Collection[str]
) -> list[str]:
    """Return what mutants name that does not exist, and what patches claim that no mutant shows."""
    found = []
    slugs = [patch.stem for patch in patches]
    for mutant in every:
        named = [(mutant.tests, tests), (mutant.ids, ids), (mutant.guards, slugs), ((mutant.needs,), ("", *NEEDS))]
        strange = [name for names, known in named for name in names if name not in known]
        found += [f"{mutant.path.name}: {name} does not exist" for name in strange]
    for patch in patches:
        shown = {test for mutant in every if patch.stem in mutant.guards for test in mutant.tests}
        found += [
            f"{patch.name}: Proved-by names {test}, and no mutant that it guards against does"
            for test in claimed(patch)
            if test not in shown
        ]
    return found


# Where a mutant differs from the series


def apply(tree: series.Tree, source: Path, mutant: Mutant) -> None:
    """Put the hazard into the whole series in `source`."""
    try:
        tree.git("apply", str(mutant.path), where=source)
    except subprocess.CalledProcessError as error:
        first = next((line for line in error.stderr.splitlines() if line.startswith("error:")), error.stderr.strip())
        raise wrong(mutant.path, f"it does not apply to the whole series ({first})") from error


def functions(tree: series.Tree, mutant: Mutant) -> str:
    """Return the functions that a mutant changes, with the change, as they are in the last commit of the tree."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name in tested.files(mutant.path):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(tree.git("show", f"HEAD:{name}") + "\n")
        tree.git("init", "--quiet", "--template=", where=folder)
        tree.git("add", "--all", where=folder)
        apply(tree, folder, mutant)
        return tested.lasting(tree.git("diff", "--unified=0", "--function-context", where=folder))


# What a result depends on


def key(tree: series.Tree, mutant: Mutant, sources: Sources) -> str:
    """Name what the result of a mutant depends on, as far as it says whether to test again.

    That is the change, the functions around it, and the programs of its tests. A change elsewhere in the series or in
    what the programs share would ask for all mutants; `make mutation` tests them before a release.
    """
    said = sorted(f"{failure.test}: {failure.message}" for failure in mutant.fails)
    return tested.key(functions(tree, mutant), mutant.needs, *said, *sources.of(mutant.tests))


def keys(tree: series.Tree, every: Iterable[Mutant], sources: Sources) -> Mapping[str, str]:
    return {mutant.slug: key(tree, mutant, sources) for mutant in every}
