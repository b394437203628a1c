"""Write docs/hazards.md: each hazard, its mutant, and the test that fails on that with its message."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from scripts import check_headers, files, lock, series
from scripts.console import ROOT, UserError, main, say
from tests.mutation import mutants
from tests.mutation.mutants import Mutant

PAGE = ROOT / "docs" / "hazards.md"
WITHOUT = Path(__file__).with_name("without-mutant.txt")
INTRODUCTION = """# Hazards

What can go wrong where, and which selftest shows it. A *mutant* is the whole series with that hazard put back; `make
mutation` builds and boots each, and the tests named here have to fail on it by the message given, a regular expression.
Ids are those of [patches/README.md](../patches/README.md). A race does not always open: there, the table says in how
many runs the test was seen to fail.

`make hazards` writes this page from the mutants of the series and from `tests/mutation/without-mutant.txt`.
"""


def without(text: str) -> dict[str, str]:
    """Read `name: reason` lines; # begins a comment."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    pairs = [line.partition(": ") for line in lines]
    bad = next((line for line, (_, _, reason) in zip(lines, pairs) if not reason.strip()), "")
    if bad:
        raise UserError(f"{WITHOUT.name}: '{bad}' gives no reason", "write 'name: reason'")
    return {name: reason for name, _, reason in pairs}


def gaps(every: Iterable[Mutant], reasons: Mapping[str, str], known: Collection[str]) -> list[str]:
    """Return what keeps the table from being complete: each name is in a mutant, or has a reason to be in none.

    Names are required tests, and rows of the table in patches/README.md.
    """
    shown = {name for mutant in every for name in (*mutant.tests, *mutant.ids)}
    found = [f"{name} is in no mutant, and no reason says why" for name in sorted(set(known) - shown - set(reasons))]
    found += [f"{name} is in a mutant, so it needs no reason" for name in sorted(shown & set(reasons))]
    return found + [f"{name} is no required test, and no row" for name in sorted(set(reasons) - set(known))]


def code(text: str) -> str:
    """Return a text as code in a cell of a table."""
    return "`{}`".format(text.replace("|", "\\|"))


def rows(mutant: Mutant) -> list[str]:
    ids = f"{', '.join(mutant.ids)}: " if mutant.ids else ""
    seen = f", in {mutant.seen} of {mutant.runs} runs" if mutant.runs > 1 else ""
    needs = f" ({mutant.needs})" if mutant.needs else ""
    first = f"| {ids}{mutant.hazard} | {code(mutant.slug)}{needs}"
    return [
        f"{'| |' if number else first} | {code(failure.test)} | {code(failure.message)}{seen} |"
        for number, failure in enumerate(mutant.fails)
    ]


def page(every: Sequence[Mutant], reasons: Mapping[str, str], patches: Sequence[Path]) -> str:
    """Return the page: the mutants below the first patch of the series that guards against them."""
    parts = [INTRODUCTION]
    order = [patch.stem for patch in patches]
    first = {mutant.slug: min(order.index(name) for name in mutant.guards) for mutant in every}
    for number, patch in enumerate(patches):
        mine = [row for mutant in every if first[mutant.slug] == number for row in rows(mutant)]
        if mine:
            head = ["| hazard | mutant | test | fails by |", "|---|---|---|---|"]
            title = series.subject(patch)
            parts.append("\n".join([f"## {patch.stem}", "", f"{title}.", "", *head, *mine]) + "\n")
    head = ["## Tests and rows without a mutant", "", "| test or row | why |", "|---|---|"]
    parts.append("\n".join([*head, *(f"| {code(test)} | {reason} |" for test, reason in reasons.items())]) + "\n")
    return "\n".join(parts)


def present() -> str:
    """Return the page as the series has it now; what names something unknown, or is missing, is an error."""
    patches = series.Series(ROOT / "patches" / lock.read()[0].series)
    every = mutants.mutants(patches.folder)
    reasons = without(WITHOUT.read_text())
    required = check_headers.test_names(check_headers.REQUIRED)
    ids = check_headers.pitfall_ids(check_headers.PITFALLS)
    wrong = [*mutants.problems(every, patches.patches(), required, ids), *gaps(every, reasons, required | ids)]
    if wrong:
        hint = f"fix the mutants, the patches or {WITHOUT}"
        raise UserError("\n".join(["the table is wrong:", *wrong]), hint)
    return page(every, reasons, patches.patches())


def command() -> None:
    files.replace(PAGE, present())
    say(f"hazards: {PAGE}")


if __name__ == "__main__":
    main(command)
