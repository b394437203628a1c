"""Mutation tests: the selftests that a mutant names fail on it as it says, and pass on the whole series."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence

from scripts import lock, series, tested
from scripts.console import UserError, main, say, step
from tests.mutation import mutants
from tests.mutation.kernels import RESULTS, SOURCE, WHOLE, Result, Runner, build_tests, flavour
from tests.mutation.mutants import Failure, Mutant
from tests.programs import Sources

Results = Mapping[tuple[str, str], Result]
Pair = tuple[str, str]


def whole(needs: str) -> str:
    """Return the name under which the results of the whole series are kept."""
    return f"{WHOLE}_{needs}" if needs else WHOLE


def shows(failure: Failure, result: Result) -> bool:
    """Has the test failed by its own message, or by what the kernel complained about?

    A test that the kernel's death has cut short has said nothing itself.
    """
    said = {"fail": [result.reason, result.complaint], "lost": [result.complaint]}
    return any(failure.matches(text) for text in said.get(result.verdict, []))


def passes(result: Result) -> bool:
    return result.verdict == "pass" and not result.complaint


def survivors(selected: Sequence[Mutant], results: Results) -> set[Pair]:
    """Return each mutant and test where the test does not fail as it should, or does not pass on the whole series."""
    return {
        (mutant.slug, failure.test)
        for mutant in selected
        for failure in mutant.fails
        if not shows(failure, results[mutant.slug, failure.test])
        or not passes(results[whole(mutant.needs), failure.test])
    }


def report(selected: Sequence[Mutant], results: Results) -> None:
    wrong = survivors(selected, results)
    width = max((len(mutant.slug) for mutant in selected), default=0)
    for mutant in selected:
        for failure in mutant.fails:
            here, there = results[mutant.slug, failure.test], results[whole(mutant.needs), failure.test]
            shown = here if passes(there) else there
            why = " / ".join(text for text in (shown.reason, shown.complaint) if text)
            verdicts = f"mutant: {here.verdict:4} series: {there.verdict:4}"
            mark = f"  <- not '{failure.message}'" if (mutant.slug, failure.test) in wrong else ""
            say(f"{mutant.slug:{width}} {failure.test:42} {verdicts} {why[:110]}{mark}")


def recorded(
    old: Mapping[str, str], current: Mapping[str, str], selected: Sequence[Mutant], results: Results
) -> dict[str, str]:
    """Return the record after a run: what passed gets its key, what did not pass or is gone loses it."""
    failed = {slug for slug, _ in survivors(selected, results)}
    kept = {slug: value for slug, value in old.items() if slug in current and slug not in failed}
    return {**kept, **{mutant.slug: current[mutant.slug] for mutant in selected if mutant.slug not in failed}}


def start(tree: series.Tree, selected: Sequence[Mutant]) -> Runner:
    """Check out the whole series, and build the selftests."""
    tree.worktree(SOURCE, tree.head())
    with step("build the selftests"):
        runner = Runner(tree, build_tests())
    missing = next((test for mutant in selected for test in mutant.tests if test not in runner.program_of), "")
    if missing:
        raise UserError(f"no program that was built has the test {missing}", "fix the mutant, or the test")
    return runner


def run_mutant(runner: Runner, mutant: Mutant) -> None:
    """Test a mutant; one that opens a race as often as its header says, or until its tests have failed."""
    failure_of = {failure.test: failure for failure in mutant.fails}
    runner.tree.worktree(SOURCE, runner.tree.head())
    mutants.apply(runner.tree, SOURCE, mutant)
    with step(mutant.slug):
        runner.run(
            mutant.slug,
            mutant.tests,
            flavour(mutant.needs),
            mutant.runs,
            lambda result: shows(failure_of[result.test], result),
        )


def run(tree: series.Tree, selected: Sequence[Mutant], done: Callable[[Mutant, Results], None]) -> Results:
    """Test the whole series, then each mutant, and tell `done` of each."""
    runner = start(tree, selected)
    for needs in sorted({mutant.needs for mutant in selected}):
        tests = sorted({test for mutant in selected if mutant.needs == needs for test in mutant.tests})
        with step(whole(needs)):
            runner.run(whole(needs), tests, flavour(needs), 1, lambda _: True)
    # Those of one file after each other, so that there is less to compile.
    for mutant in sorted(selected, key=lambda mutant: (mutant.needs, sorted(tested.files(mutant.path)))):
        run_mutant(runner, mutant)
        done(mutant, runner.results)
    return runner.results


def measure(tree: series.Tree, selected: Sequence[Mutant], times: int) -> None:
    """Say in how many of so many runs the tests of each mutant fail as they should: for Runs."""
    runner = start(tree, selected)
    for mutant in selected:
        seen = dict.fromkeys(mutant.tests, 0)
        for _ in range(times):
            for test in mutant.tests:
                runner.results.pop((mutant.slug, test), None)
            run_mutant(runner, mutant)
            for failure in mutant.fails:
                seen[failure.test] += shows(failure, runner.results[mutant.slug, failure.test])
        for test, count in seen.items():
            say(f"{mutant.slug}: {test} failed in {count} of {times} runs")


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mutant", nargs="*", help="names of mutants; all of them by default")
    parser.add_argument("--patch", nargs="+", default=[], help="those that these patches guard against")
    parser.add_argument("--changed", action="store_true", help="only what has changed since it was recorded")
    parser.add_argument("--record", action="store_true", help="record what passes, for --changed")
    parser.add_argument("--times", type=int, help="run the tests so often, and only count how often they fail")
    arguments = parser.parse_args()
    began = time.monotonic()
    patches, tree = series.place(lock.used())
    every = mutants.mutants(patches.folder)
    selected = mutants.chosen(every, arguments.mutant, arguments.patch)
    if arguments.times:
        measure(tree, selected, arguments.times)
        return
    keys = mutants.keys(tree, every, Sources())
    record = tested.Record(patches.folder, "mutation")
    if arguments.changed:
        changed = record.changed({mutant.slug: keys[mutant.slug] for mutant in selected})
        selected = [mutant for mutant in selected if mutant.slug in changed]
    if not selected:
        return

    def done(mutant: Mutant, results: Results) -> None:
        """Record at once: an interruption loses nothing."""
        if arguments.record:
            record.write(recorded(record.read(), keys, [mutant], results))

    results = run(tree, selected, done)
    report(selected, results)
    wrong = len(survivors(selected, results))
    count = sum(len(mutant.tests) for mutant in selected)
    say(f"mutation: {len(selected)} mutants, {count} tests, {wrong} with a wrong result")
    if wrong:
        raise UserError(f"{wrong} tests have a wrong result, see the table", "fix the test, or the mutant")
    say(f"mutation: done in {time.monotonic() - began:.0f} s; {RESULTS}")


if __name__ == "__main__":
    main(command)
