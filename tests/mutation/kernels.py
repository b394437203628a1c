"""Build the kernel of a mutant, boot it directly with some selftests, and keep their results.

A result is kept for as long as neither the source of that kernel nor a selftest changes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import direct_boot
from lab.direct_boot import CONFIG
from lab.kernel_build import Place
from scripts import files, series
from scripts.console import BUILD, ROOT, UserError, run_logged
from tests.verdicts import read_console

WORK = BUILD / "mutation"
SOURCE = WORK / "src"
KERNEL = WORK / "kernel"
TESTS = WORK / "tests"
RESULTS = WORK / "results.json"
SELFTESTS = ROOT / "tests" / "selftests"
BUILDS = Place(SOURCE, KERNEL, BUILD / "logs" / "mutation-build.log")
# Takes the place of a patch's slug. No patch has it: slugs are written with hyphens.
WHOLE = "whole_series"
# They want the machine for themselves.
ALONE = "thp_memcg_v1"
# More than any test takes in emulation.
TEST_LIMIT = 120.0


@dataclass(frozen=True)
class Result:
    """What one test did on one kernel: the mutant of a patch, or the whole series."""

    slug: str
    test: str
    key: str
    verdict: str
    reason: str

    @property
    def holds(self) -> bool:
        return self.verdict == ("pass" if self.slug == WHOLE else "fail")


def build_image(name: str) -> Path:
    """Build the kernel from what is in the source now; stop if Kconfig grants less than is requested."""
    refused = BUILDS.configure(CONFIG)
    if refused:
        raise UserError(f"{CONFIG} asks for {refused[0]}, Kconfig does not grant it", "fix that file")
    image = WORK / f"bzImage-{name}"
    shutil.copyfile(BUILDS.image(name), image)
    return image


def build_tests() -> dict[str, str]:
    """Build the selftests; return the program of each test."""
    BUILDS.make(["headers"], "kernel headers")
    inside = SOURCE / "tools" / "testing" / "selftests" / "thp"
    shutil.rmtree(inside, ignore_errors=True)
    shutil.copytree(SELFTESTS, inside)
    shutil.rmtree(TESTS, ignore_errors=True)
    command = ["make", "-s", "-C", str(inside.parent), "TARGETS=thp", "install", f"INSTALL_PATH={TESTS}"]
    command += [f"KHDR_INCLUDES=-isystem {KERNEL / 'usr' / 'include'}", f"O={WORK / 'selftests'}"]
    run_logged(command, BUILD / "logs" / "mutation-tests.log", "selftests", "fix what the log says")
    shutil.rmtree(inside)
    return {test: path.name for path in programs() for test in direct_boot.listed(path)}


def programs() -> list[Path]:
    return sorted(path for path in (TESTS / "thp").iterdir() if path.name.startswith("thp_"))


class Runner:
    """Runs tests on kernels and keeps the results."""

    def __init__(self, tree: series.Tree, program_of: dict[str, str]) -> None:
        self.tree = tree
        self.program_of = program_of
        self.base = direct_boot.base_archive(programs(), WORK)
        self.results = self.read()
        self.inputs = self.digest()

    def read(self) -> dict[tuple[str, str], Result]:
        if not RESULTS.exists():
            return {}
        results = [Result(**entry) for entry in json.loads(RESULTS.read_text())["results"]]
        return {(result.slug, result.test): result for result in results}

    def write(self) -> None:
        results = [asdict(result) for _, result in sorted(self.results.items())]
        files.replace(RESULTS, json.dumps({"results": results}, indent=2) + "\n")

    def digest(self) -> str:
        total = hashlib.sha256(CONFIG.read_bytes() + direct_boot.INIT.read_bytes())
        for path in sorted(SELFTESTS.iterdir()):
            total.update(path.read_bytes() if path.suffix in (".c", ".h") else b"")
        return total.hexdigest()

    def key(self) -> str:
        """Name what is about to be tested: the source as it is, and the tests."""
        self.tree.git("add", "--update", where=SOURCE)
        source = self.tree.git("write-tree", where=SOURCE)
        return hashlib.sha256(f"{source}{self.inputs}".encode()).hexdigest()[:16]

    def run(self, slug: str, tests: Sequence[str]) -> None:
        """Get a result for each test on the kernel in the source."""
        key = self.key()
        # In the order in which the programs run them, whatever order they are named in.
        wanted = [test for test in self.program_of if test in tests]
        left = [test for test in wanted if (slug, test) not in self.results or self.results[slug, test].key != key]
        if not left:
            return
        image = build_image(slug)
        for group in self.groups(left):
            while group:
                group = self.boot(image, slug, group, key)

    def groups(self, tests: Sequence[str]) -> list[list[str]]:
        alone = [test for test in tests if self.program_of[test] == ALONE]
        return [group for group in ([test for test in tests if test not in alone], alone) if group]

    def boot(self, image: Path, slug: str, tests: list[str], key: str) -> list[str]:
        """Run tests in one machine; return those that did not run because an earlier one killed the kernel."""
        selected: dict[str, list[str]] = {}
        for test in tests:
            selected.setdefault(self.program_of[test], []).append(test)
        console = direct_boot.run(image, self.base, selected, WORK / "boot" / slug, TEST_LIMIT * len(tests))
        found = read_console(console, selected)
        lost = [test for group in selected.values() for test in group if found[test].verdict == "lost"]
        for test, verdict in found.items():
            if test not in lost[1:]:
                self.results[slug, test] = Result(slug, test, key, verdict.verdict, verdict.reason)
        self.write()
        return lost[1:]
