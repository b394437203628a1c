"""Build the kernel of a mutant, boot it directly with some selftests, and keep their results.

A result is kept for as long as neither the source of that kernel nor that of the test changes.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import direct_boot, splats
from lab.direct_boot import CONFIG, Machine
from lab.kernel_build import Place, merged
from scripts import files, rpms, series, tested
from scripts.console import BUILD, UserError, run_logged
from tests.kernel import lockdep
from tests.mutation.mutants import LOCKDEP
from tests.programs import Sources
from tests.verdicts import read_console

WORK = BUILD / "mutation"
SOURCE = WORK / "src"
TESTS = WORK / "tests"
RESULTS = WORK / "results.json"
# Takes the place of a mutant's slug. No mutant has it: slugs are written with hyphens.
WHOLE = "whole_series"
# They want the machine for themselves.
ALONE = "thp_memcg_v1"
# More than any test takes in emulation.
TEST_LIMIT = 120.0
# Down to warnings, and the notice of the kernel's version, without which no log is searched. After a BUG, a kernel that
# goes on hangs for minutes.
LINE = "numa=fake=2 loglevel=6 oops=panic THP_TEST_FILL_MEMORY=1 THP_TEST_READ_ERRORS=1"
RESULT = re.compile(r"^(?:not )?ok \d+ (\S+)")


@dataclass(frozen=True)
class Result:
    """What one test said on one kernel, a mutant's or the whole series', the last time it ran there."""

    slug: str
    test: str
    key: str
    verdict: str
    reason: str
    # The first splat during the test.
    complaint: str = ""
    runs: int = 1


@dataclass(frozen=True)
class Flavour:
    """How kernels with certain needs are built and booted."""

    place: Place
    config: Path
    machine: Machine
    slow: int = 1


def flavour(needs: str) -> Flavour:
    if needs == LOCKDEP:
        config = merged(WORK / "lockdep.config", CONFIG, lockdep.EXTRA)
        line = f"{LINE} THP_TEST_SLOW={lockdep.SLOW}"
        return Flavour(place("kernel-lockdep"), config, Machine(kernel_line=line), lockdep.SLOW)
    return Flavour(place("kernel"), CONFIG, Machine(kernel_line=LINE))


def place(name: str) -> Place:
    return Place(SOURCE, WORK / name, BUILD / "logs" / f"mutation-{name}.log")


def build_tests() -> dict[str, str]:
    """Build the selftests; return the program of each test."""
    kernel = flavour("").place
    kernel.make(["headers"], "kernel headers")
    inside = SOURCE / "tools" / "testing" / "selftests" / "thp"
    shutil.rmtree(inside, ignore_errors=True)
    shutil.copytree(rpms.TESTS, inside)
    shutil.rmtree(TESTS, ignore_errors=True)
    command = ["make", "-s", "-C", str(inside.parent), "TARGETS=thp", "install", f"INSTALL_PATH={TESTS}"]
    command += [f"KHDR_INCLUDES=-isystem {kernel.objects / 'usr' / 'include'}", f"O={WORK / 'selftests'}"]
    run_logged(command, BUILD / "logs" / "mutation-tests.log", "selftests", "fix what the log says")
    shutil.rmtree(inside)
    return {test: path.name for path in programs() for test in direct_boot.listed(path)}


def programs() -> list[Path]:
    return sorted(path for path in (TESTS / "thp").iterdir() if path.name.startswith("thp_"))


def complaints(lines: Sequence[str]) -> tuple[dict[str, str], str]:
    """Return the first splat during each test that has a result, and the first one after the last result."""
    found = splats.scan("\n".join(lines), splats.allowed())
    at = {splat.line: splat.text for splat in found}
    during: dict[str, str] = {}
    first = ""
    for number, line in enumerate(lines, 1):
        first = first or at.get(number, "")
        match = RESULT.match(line)
        if match:
            during[match[1]] = first
            first = ""
    return during, first


class Runner:
    """Runs tests on kernels and keeps the results."""

    def __init__(self, tree: series.Tree, program_of: dict[str, str]) -> None:
        self.tree = tree
        self.program_of = program_of
        self.base = direct_boot.base_archive(programs(), WORK)
        self.results = self.read()
        self.inputs = self.digests()
        self.configured: set[Path] = set()

    def read(self) -> dict[tuple[str, str], Result]:
        if not RESULTS.exists():
            return {}
        results = [Result(**entry) for entry in json.loads(RESULTS.read_text())["results"]]
        return {(result.slug, result.test): result for result in results}

    def write(self) -> None:
        results = [asdict(result) for _, result in sorted(self.results.items())]
        files.replace(RESULTS, json.dumps({"results": results}, indent=2) + "\n")

    def digests(self) -> dict[str, str]:
        """Name what each program is made of and run with."""
        sources = Sources()
        common = [*(path.read_text() for path in (CONFIG, lockdep.EXTRA, direct_boot.INIT)), *sources.shared]
        return {name: tested.key(*common, text) for name, text in sources.programs.items()}

    def keys(self, tests: Sequence[str]) -> dict[str, str]:
        """Name what is about to be tested: the source as it is, and each test."""
        self.tree.git("add", "--update", where=SOURCE)
        source = self.tree.git("write-tree", where=SOURCE)
        return {test: tested.key(source, self.inputs[self.program_of[test]]) for test in tests}

    def run(self, slug: str, tests: Sequence[str], kind: Flavour, most: int, enough: Callable[[Result], bool]) -> None:
        """Run each test on the kernel in the source, at most so many times, until a result of it is enough."""
        # In the order in which the programs run them, whatever order they are named in.
        keys = self.keys([test for test in self.program_of if test in tests])

        def settled(test: str) -> bool:
            result = self.results.get((slug, test))
            return result is not None and result.key == keys[test] and (enough(result) or result.runs >= most)

        image = None
        while missing := [test for test in keys if not settled(test)]:
            image = image or self.image(slug, kind)
            for group in self.groups(missing):
                while group:
                    group = self.boot(image, slug, group, kind, keys)

    def image(self, slug: str, kind: Flavour) -> Path:
        """Build the kernel in the source; stop if Kconfig grants less than is requested."""
        if kind.place.objects not in self.configured:
            refused = kind.place.configure(kind.config)
            if refused:
                raise UserError(f"{kind.config} asks for {refused[0]}, Kconfig does not grant it", "fix that file")
            self.configured.add(kind.place.objects)
        return kind.place.image(slug)

    def groups(self, tests: Sequence[str]) -> list[list[str]]:
        alone = [test for test in tests if self.program_of[test] == ALONE]
        return [group for group in ([test for test in tests if test not in alone], alone) if group]

    def boot(self, image: Path, slug: str, tests: list[str], kind: Flavour, keys: Mapping[str, str]) -> list[str]:
        """Run tests in one machine; return those that did not run because an earlier one killed the kernel."""
        selected: dict[str, list[str]] = {}
        for test in tests:
            selected.setdefault(self.program_of[test], []).append(test)
        limit = TEST_LIMIT * kind.slow * len(tests)
        console = direct_boot.run(image, self.base, selected, WORK / "boot" / slug, limit, kind.machine)
        found = read_console(console, selected)
        during, last = complaints(direct_boot.console_lines(console))
        lost = [test for group in selected.values() for test in group if found[test].verdict == "lost"]
        for test, verdict in found.items():
            if test not in lost[1:]:
                old = self.results.get((slug, test))
                runs = old.runs + 1 if old and old.key == keys[test] else 1
                said = (verdict.verdict, verdict.reason, during.get(test, last))
                self.results[slug, test] = Result(slug, test, keys[test], *said, runs)
        self.write()
        return lost[1:]
