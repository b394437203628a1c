"""Show for each patch that the selftests it names fail without it, and pass with it.

The series minus one patch is the whole series with that patch's commit reverted. Where later patches build on it,
patches/<base>/undo/<number>.patch takes its effect away from the whole series instead.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab import direct_boot
from lab.direct_boot import CONFIG
from lab.kernel_build import Place
from scripts import check_headers, lock, series
from scripts.console import BUILD, ROOT, UserError, main, run_logged, say, step
from tests.verdicts import read_console

WORK = BUILD / "prove"
SOURCE = WORK / "src"
KERNEL = WORK / "kernel"
TESTS = WORK / "tests"
RESULTS = WORK / "results.json"
SELFTESTS = ROOT / "tests" / "selftests"
PLACE = Place(SOURCE, KERNEL, BUILD / "logs" / "prove-build.log")
# They want the machine for themselves.
ALONE = "thp_memcg_v1"
# More than any test takes in emulation.
TEST_LIMIT = 120.0


@dataclass(frozen=True)
class Claim:
    """A patch and the tests that its header says fail without it."""

    number: int
    patch: Path
    commit: str
    tests: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Proof:
    """What one test did on one kernel; patch 0 is the whole series."""

    patch: int
    test: str
    key: str
    verdict: str
    reason: str

    @property
    def holds(self) -> bool:
        return self.verdict == ("pass" if self.patch == 0 else "fail")


def claims(patches: Sequence[Path], commits: Sequence[str]) -> list[Claim]:
    found = []
    for number, (patch, commit) in enumerate(zip(patches, commits), 1):
        message = patch.read_text().partition("\n\n")[2].partition("\n---\n")[0]
        value = dict(check_headers.last_paragraph(message)).get("Proved-by", "none (no such line)")
        none = check_headers.NONE.fullmatch(value)
        tests = () if none else tuple(check_headers.names(value))
        found.append(Claim(number, patch, commit, tests, value if none else ""))
    return found


# The source


def take_away(tree: series.Tree, claim: Claim) -> str:
    """Take one patch out of the whole series; say how it was done."""
    undo = claim.patch.parent / "undo" / f"{claim.patch.stem}.patch"
    try:
        if undo.exists():
            tree.git("apply", str(undo), where=SOURCE)
            return undo.name
        tree.git("revert", "--no-commit", claim.commit, where=SOURCE)
        return "revert"
    except subprocess.CalledProcessError as error:
        first = next((line for line in error.stderr.splitlines() if line.startswith("error:")), error.stderr.strip())
        what = f"{undo} does not apply" if undo.exists() else f"later patches build on {claim.patch.name}"
        todo = f"{'mend' if undo.exists() else 'write'} {undo}, which takes its effect away from the whole series"
        raise UserError(f"{what} ({first})", todo) from error


# What is built


def build_image(name: str) -> Path:
    """Build the kernel from what is in the source now; stop if Kconfig grants less than is asked for."""
    refused = PLACE.configure(CONFIG)
    if refused:
        raise UserError(f"{CONFIG} asks for {refused[0]}, Kconfig does not grant it", "mend that file")
    image = WORK / f"bzImage-{name}"
    shutil.copyfile(PLACE.image(name), image)
    return image


def build_tests() -> dict[str, str]:
    """Build the selftests; return the program of each test."""
    PLACE.make(["headers"], "kernel headers")
    inside = SOURCE / "tools" / "testing" / "selftests" / "thp"
    shutil.rmtree(inside, ignore_errors=True)
    shutil.copytree(SELFTESTS, inside)
    shutil.rmtree(TESTS, ignore_errors=True)
    command = ["make", "-s", "-C", str(inside.parent), "TARGETS=thp", "install", f"INSTALL_PATH={TESTS}"]
    command += [f"KHDR_INCLUDES=-isystem {KERNEL / 'usr' / 'include'}", f"O={WORK / 'selftests'}"]
    run_logged(command, BUILD / "logs" / "prove-tests.log", "selftests", "mend what the log says")
    shutil.rmtree(inside)
    return {test: path.name for path in programs() for test in direct_boot.listed(path)}


def programs() -> list[Path]:
    return sorted(path for path in (TESTS / "thp").iterdir() if path.name.startswith("thp_"))


# The proof


class Bench:
    """Runs tests on kernels, and remembers what they said for as long as nothing that matters has changed."""

    def __init__(self, tree: series.Tree, program_of: dict[str, str]) -> None:
        self.tree = tree
        self.program_of = program_of
        self.base = direct_boot.base_archive(programs(), WORK)
        self.known = self.read()
        self.mark = self.digest()

    def read(self) -> dict[tuple[int, str], Proof]:
        if not RESULTS.exists():
            return {}
        proofs = [Proof(**entry) for entry in json.loads(RESULTS.read_text())["proofs"]]
        return {(proof.patch, proof.test): proof for proof in proofs}

    def write(self) -> None:
        proofs = [asdict(proof) for _, proof in sorted(self.known.items())]
        part = RESULTS.with_suffix(".part")
        part.write_text(json.dumps({"proofs": proofs}, indent=2) + "\n")
        part.replace(RESULTS)

    def digest(self) -> str:
        total = hashlib.sha256(CONFIG.read_bytes() + direct_boot.INIT.read_bytes())
        for path in sorted(SELFTESTS.iterdir()):
            total.update(path.read_bytes() if path.suffix in (".c", ".h") else b"")
        return total.hexdigest()

    def key(self) -> str:
        """Name what is about to be tested: the source as it is, and the tests."""
        self.tree.git("add", "--update", where=SOURCE)
        source = self.tree.git("write-tree", where=SOURCE)
        return hashlib.sha256(f"{source}{self.mark}".encode()).hexdigest()[:16]

    def run(self, patch: int, tests: Sequence[str]) -> None:
        """Make a verdict for each test on the kernel in the source."""
        key = self.key()
        # In the order in which the programs run them, whatever order they are named in.
        wanted = [test for test in self.program_of if test in tests]
        left = [test for test in wanted if (patch, test) not in self.known or self.known[patch, test].key != key]
        if not left:
            return
        image = build_image(f"{patch:04}" if patch else "whole")
        for group in self.groups(left):
            while group:
                group = self.boot(image, patch, group, key)

    def groups(self, tests: Sequence[str]) -> list[list[str]]:
        alone = [test for test in tests if self.program_of[test] == ALONE]
        return [group for group in ([test for test in tests if test not in alone], alone) if group]

    def boot(self, image: Path, patch: int, tests: list[str], key: str) -> list[str]:
        """Run tests in one machine; return those that did not get their turn because an earlier one killed it."""
        todo: dict[str, list[str]] = {}
        for test in tests:
            todo.setdefault(self.program_of[test], []).append(test)
        folder = WORK / "boot" / (f"{patch:04}" if patch else "whole")
        found = read_console(direct_boot.run(image, self.base, todo, folder, TEST_LIMIT * len(tests)), todo)
        lost = [test for tests in todo.values() for test in tests if found[test].verdict == "lost"]
        for test, verdict in found.items():
            if test not in lost[1:]:
                self.known[patch, test] = Proof(patch, test, key, verdict.verdict, verdict.reason)
        self.write()
        return lost[1:]

    def report(self, numbers: Sequence[int], tests: dict[int, tuple[str, ...]]) -> int:
        """Print the table, return how many proofs do not hold."""
        wrong = 0
        for number in numbers:
            for test in tests[number]:
                without, whole = self.known[number, test], self.known[0, test]
                holds = without.holds and whole.holds
                wrong += not holds
                mark = "" if holds else "  <- proves nothing"
                why = without.reason if whole.holds else whole.reason
                say(f"{number:04} {test:42} without: {without.verdict:4} with: {whole.verdict:4} {why[:90]}{mark}")
        return wrong


def chosen(all_claims: list[Claim], only: Sequence[int]) -> list[Claim]:
    wrong = [number for number in only if not 1 <= number <= len(all_claims)]
    if wrong:
        raise UserError(f"there is no patch {wrong[0]}", f"give a number from 1 to {len(all_claims)}")
    return [claim for claim in all_claims if not only or claim.number in only]


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("patch", nargs="*", type=int, help="numbers of patches; all of them by default")
    only = parser.parse_args().patch
    began = time.monotonic()
    patches, tree = series.place(lock.used())
    commits = tree.git("rev-list", "--reverse", "base..HEAD").splitlines()
    todo = chosen(claims(patches.patches(), commits), only)
    tree.worktree(SOURCE, commits[-1])
    with step("build the selftests"):
        bench = Bench(tree, build_tests())
    unknown = [test for claim in todo for test in claim.tests if test not in bench.program_of]
    if unknown:
        raise UserError(f"no program has the test {unknown[0]}", "mend Proved-by, or the test")
    with step("the whole series"):
        bench.run(0, sorted({test for claim in todo for test in claim.tests}))
    for claim in todo:
        if not claim.tests:
            say(f"{claim.number:04} {claim.patch.name}: {claim.reason}")
            continue
        tree.worktree(SOURCE, commits[-1])
        with step(f"without {claim.patch.name} ({take_away(tree, claim)})"):
            bench.run(claim.number, claim.tests)
    proved = [claim for claim in todo if claim.tests]
    wrong = bench.report([claim.number for claim in proved], {claim.number: claim.tests for claim in proved})
    say(f"prove: {len(proved)} patches, {sum(len(claim.tests) for claim in proved)} proofs, {wrong} do not hold")
    if wrong:
        raise UserError(f"{wrong} proofs do not hold, see the table", "mend the test, the undo patch or Proved-by")
    say(f"prove: done in {time.monotonic() - began:.0f} s; {RESULTS}")


if __name__ == "__main__":
    main(command)
