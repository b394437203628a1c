"""Mutation tests: the selftests that a patch names fail without it, and pass with it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence

from scripts import lock, series
from scripts.console import UserError, main, say, step
from scripts.tested import Record
from tests.mutation import mutants
from tests.mutation.kernels import RESULTS, SELFTESTS, SOURCE, WHOLE, Result, Runner, build_tests
from tests.mutation.mutants import Mutant

Results = Mapping[tuple[str, str], Result]


def survivors(selected: Sequence[Mutant], results: Results) -> set[tuple[str, str]]:
    """Return each patch and test where the test does not fail on the mutant, or does not pass on the whole series."""
    pairs = [(mutant.slug, test) for mutant in selected for test in mutant.tests]
    return {(slug, test) for slug, test in pairs if not (results[slug, test].holds and results[WHOLE, test].holds)}


def report(selected: Sequence[Mutant], results: Results) -> None:
    wrong = survivors(selected, results)
    width = max((len(mutant.slug) for mutant in selected), default=0)
    for mutant in selected:
        for test in mutant.tests:
            without, whole = results[mutant.slug, test], results[WHOLE, test]
            mark = "  <- the mutant survives" if (mutant.slug, test) in wrong else ""
            why = without.reason if whole.holds else whole.reason
            verdicts = f"without: {without.verdict:4} with: {whole.verdict:4}"
            say(f"{mutant.slug:{width}} {test:42} {verdicts} {why[:90]}{mark}")


def recorded(
    old: Mapping[str, str], current: Mapping[str, str], selected: Sequence[Mutant], results: Results
) -> dict[str, str]:
    """Return the record after a run: what passed gets its key, what did not pass or is gone loses it."""
    failed = {slug for slug, _ in survivors(selected, results)}
    kept = {slug: value for slug, value in old.items() if slug in current and slug not in failed}
    return {**kept, **{mutant.slug: current[mutant.slug] for mutant in selected if mutant.slug not in failed}}


def run(tree: series.Tree, commits: Mapping[str, str], selected: Sequence[Mutant]) -> Results:
    """Test the whole series, then each mutant."""
    last = list(commits.values())[-1]
    tree.worktree(SOURCE, last)
    with step("build the selftests"):
        runner = Runner(tree, build_tests())
    missing = next((test for mutant in selected for test in mutant.tests if test not in runner.program_of), "")
    if missing:
        raise UserError(f"no program that was built has the test {missing}", "fix Proved-by, or the test")
    with step("the whole series"):
        runner.run(WHOLE, sorted({test for mutant in selected for test in mutant.tests}))
    for mutant in selected:
        tree.worktree(SOURCE, last)
        how = mutants.take_away(tree, SOURCE, mutant, commits[mutant.slug])
        with step(f"without {mutant.slug} ({how})"):
            runner.run(mutant.slug, mutant.tests)
    return runner.results


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patch", nargs="*", help="slugs of patches; all of them by default")
    parser.add_argument(
        "--changed", action="store_true", help="only patches that have changed since they were recorded"
    )
    parser.add_argument("--record", action="store_true", help="record the patches that pass, for --changed")
    arguments = parser.parse_args()
    began = time.monotonic()
    patches, tree = series.place(lock.used())
    every = mutants.mutants(patches.patches())
    keys = mutants.keys(every, mutants.Sources(SELFTESTS))
    record = Record(patches.folder, "mutation")
    selected = mutants.chosen(every, arguments.patch)
    for mutant in selected:
        if not mutant.tests and not arguments.changed:
            say(f"{mutant.slug}: {mutant.reason}")
    selected = [mutant for mutant in selected if mutant.tests]
    if arguments.changed:
        changed = record.changed({mutant.slug: keys[mutant.slug] for mutant in selected})
        selected = [mutant for mutant in selected if mutant.slug in changed]
    if not selected:
        return
    commits = tree.git("rev-list", "--reverse", "base..HEAD").splitlines()
    results = run(tree, dict(zip((mutant.slug for mutant in every), commits)), selected)
    report(selected, results)
    if arguments.record:
        record.write(recorded(record.read(), keys, selected, results))
    wrong = len(survivors(selected, results))
    count = sum(len(mutant.tests) for mutant in selected)
    say(f"mutation: {len(selected)} mutants, {count} tests, {wrong} with a wrong result")
    if wrong:
        raise UserError(
            f"{wrong} tests have a wrong result, see the table", "fix the test, the undo patch or Proved-by"
        )
    say(f"mutation: done in {time.monotonic() - began:.0f} s; {RESULTS}")


if __name__ == "__main__":
    main(command)
