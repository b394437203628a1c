"""What counts: the test's own `not ok` on the mutant, and its own `ok` on the whole series."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import series
from scripts.console import BUILD, ROOT, UserError
from tests.mutation import mutants, run
from tests.mutation.kernels import SELFTESTS, WHOLE, Result
from tests.mutation.mutants import Mutant
from tests.verdicts import read_console

WANTED = {"thp_a": ["a.one", "a.two", "a.three"], "thp_b": ["b.one"]}
CONSOLE = """firmware\r
### thp_a\r
KTAP version 1\r
1..3\r
ok 1 a.one\r
# a.two: 3 left\r
not ok 2 a.two\r
ok 3 a.three # SKIP one node\r
### ended\r
### thp_b\r
KTAP version 1\r
1..1\r
"""


def verdicts(tmp_path: Path, text: str) -> dict[str, tuple[str, str]]:
    console = tmp_path / "console.log"
    console.write_text(text)
    found = read_console(console, WANTED)
    return {name: (verdict.verdict, verdict.reason) for name, verdict in found.items()}


def test_a_console_is_read_test_by_test(tmp_path: Path) -> None:
    found = verdicts(tmp_path, CONSOLE)
    assert found["a.one"] == ("pass", "")
    assert found["a.two"] == ("fail", "3 left")
    assert found["a.three"] == ("skip", "one node")


def test_a_test_that_says_nothing_is_lost_with_the_reason(tmp_path: Path) -> None:
    assert verdicts(tmp_path, CONSOLE)["b.one"][0] == "lost"
    panic = CONSOLE + "Kernel panic - not syncing: Fatal exception\r\n"
    assert verdicts(tmp_path, panic)["b.one"] == ("lost", "Kernel panic - not syncing: Fatal exception")


@pytest.mark.parametrize(
    ("slug", "verdict", "holds"),
    [("x", "fail", True), ("x", "pass", False), ("x", "lost", False), (WHOLE, "pass", True), (WHOLE, "skip", False)],
)
def test_only_a_verdict_of_the_test_itself_counts(slug: str, verdict: str, holds: bool) -> None:
    assert Result(slug, "a.one", "key", verdict, "").holds is holds


def test_a_header_names_the_tests_of_a_mutant(tmp_path: Path) -> None:
    head = f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nSubject: mm: x\n\nbody\n\nUpstream: none (x)\nPitfalls: none\n"
    end = "Signed-off-by: someone\n---\n diff\n"
    one, two = tmp_path / "first.patch", tmp_path / "second.patch"
    one.write_text(f"{head}Proved-by: a.one,\n a.two\n{end}")
    two.write_text(f"{head}Proved-by: none (saves time)\n{end}")
    first, second = mutants.mutants([one, two])
    assert (first.slug, first.tests) == ("first", ("a.one", "a.two"))
    assert (second.tests, second.reason) == ((), "none (saves time)")


@pytest.fixture
def tree(tmp_path: Path) -> series.Tree:
    """A series of two patches, of which the second builds on the first."""
    folder = tmp_path / "tree"
    folder.mkdir()
    made = series.Tree(folder)
    made.git("init", "--quiet", "--initial-branch=thp")
    for number, text in enumerate(["a\n", "a\nb\n", "a\nb and c\n"]):
        (folder / "file").write_text(text)
        made.git("add", "file")
        made.git("commit", "--quiet", f"--message={number}")
    return made


def take_away(tmp_path: Path, tree: series.Tree, slug: str) -> str:
    commit = tree.git("rev-parse", {"first": "HEAD~1", "second": "HEAD"}[slug])
    return mutants.take_away(tree, tree.folder, Mutant(tmp_path / f"{slug}.patch", ("a.one",), ""), commit)


def test_the_last_patch_reverts(tmp_path: Path, tree: series.Tree) -> None:
    assert take_away(tmp_path, tree, "second") == "revert"
    assert (tree.folder / "file").read_text() == "a\nb\n"


def test_what_does_not_revert_needs_an_undo_patch(tmp_path: Path, tree: series.Tree) -> None:
    with pytest.raises(UserError, match=r"later patches build on first.patch.*write .*undo/first.patch"):
        take_away(tmp_path, tree, "first")


def test_an_undo_patch_goes_first_and_must_fit(tmp_path: Path, tree: series.Tree) -> None:
    undo = tmp_path / "undo" / "first.patch"
    undo.parent.mkdir()
    lines = ["--- a/file", "+++ b/file", "@@ -1,2 +1,2 @@", " a", "-b and c", "+c"]
    undo.write_text("Without it.\n\n" + "\n".join(lines) + "\n")
    assert take_away(tmp_path, tree, "first") == "undo/first.patch"
    assert (tree.folder / "file").read_text() == "a\nc\n"
    with pytest.raises(UserError, match=r"undo/first.patch does not apply .*fix"):
        take_away(tmp_path, tree, "first")


def test_an_unknown_slug_names_the_known_ones() -> None:
    every = [Mutant(Path(f"{name}.patch"), (), "") for name in ("first", "second")]
    assert [mutant.slug for mutant in mutants.chosen(every, ["second"])] == ["second"]
    assert mutants.chosen(every, []) == every
    with pytest.raises(UserError, match=r"no patch frist.*first, second"):
        mutants.chosen(every, ["frist"])


# The record


DIFF = """diff --git a/file b/file
index 1111..2222 100644
--- a/file
+++ b/file
@@ -1,2 +1,2 @@ function()
 a
-b
+c
"""


class Toy:
    """A patch, its undo patch and the selftests it names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.patch, self.undo = folder / "toy.patch", folder / "undo" / "toy.patch"
        self.undo.parent.mkdir()
        self.patch.write_text(f"Subject: mm: toy\n\nWhy.\n---\n file | 2 +-\n\n{DIFF}")
        self.undo.write_text(f"Without it.\n\n{DIFF}")
        (folder / "Makefile").write_text("TEST_GEN_PROGS := thp_a\nTEST_GEN_PROGS += thp_b\n")
        (folder / "thp_a.c").write_text('TEST("a.one", one),\nTEST_WITH("a.two", two, 2),\n')
        (folder / "thp_b.c").write_text('TEST("b.one", one),\n')
        (folder / "thp_run.c").write_text("int main;\n")
        (folder / "thp_util.h").write_text("#define TEST(name_, run_)\n")

    def key(self, *tests: str) -> str:
        return mutants.key(Mutant(self.patch, tests or ("a.one",), ""), mutants.Sources(self.folder))


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("toy.patch", "mm: toy", "mm: another name"),
        ("toy.patch", "Why.", "Why, in other words."),
        ("toy.patch", "1111..2222", "3333..4444"),
        ("toy.patch", "@@ -1,2 +1,2 @@ function()", "@@ -9,2 +9,2 @@ other()"),
        ("undo/toy.patch", "Without it.", "Not with it."),
        ("thp_b.c", "b.one", "b.two"),
    ],
)
def test_what_changes_no_result_changes_no_key(toy: Toy, name: str, old: str, new: str) -> None:
    before = toy.key()
    path = toy.folder / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert toy.key() == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("toy.patch", "+c", "+d"),
        ("toy.patch", "a/file b/file", "a/other b/other"),
        ("undo/toy.patch", "+c", "+d"),
        ("thp_a.c", "one)", "other)"),
        ("thp_run.c", "main", "other"),
        ("thp_util.h", "TEST", "CASE"),
    ],
)
def test_what_may_change_a_result_changes_the_key(toy: Toy, name: str, old: str, new: str) -> None:
    before = toy.key()
    path = toy.folder / name
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert toy.key() != before


def test_the_names_of_the_tests_are_in_the_key(toy: Toy) -> None:
    assert len({toy.key("a.one"), toy.key("a.two"), toy.key("a.one", "b.one")}) == 3
    assert toy.key("a.one", "b.one") == toy.key("b.one", "a.one")
    with pytest.raises(UserError, match=r"no program has the test c\.one"):
        toy.key("c.one")


def test_a_record_keeps_what_passes_and_drops_the_rest() -> None:
    selected = [Mutant(Path(f"{name}.patch"), ("a.one",), "") for name in ("good", "bad")]
    results = {
        (slug, "a.one"): Result(slug, "a.one", "key", verdict, "")
        for slug, verdict in {WHOLE: "pass", "good": "fail", "bad": "pass"}.items()
    }
    assert run.survivors(selected, results) == {("bad", "a.one")}
    old = {"good": "old", "bad": "b", "other": "o", "gone": "g"}
    assert run.recorded(old, {"good": "g", "bad": "b", "other": "new"}, selected, results) == {
        "good": "g",
        "other": "o",
    }
    results[WHOLE, "a.one"] = Result(WHOLE, "a.one", "key", "fail", "")
    assert run.recorded({}, {"good": "g", "bad": "b"}, selected, results) == {}


def test_every_test_of_the_series_is_found_in_one_program() -> None:
    sources = mutants.Sources(SELFTESTS)
    shared = "".join(sources.shared)
    assert "int run_tests(" in shared
    assert not any(text in sources.shared for text in sources.of_test.values())
    for folder in (ROOT / "patches").glob("*.*/"):
        for mutant in mutants.mutants(series.Series(folder).patches()):
            assert mutant.tests == () or mutants.key(mutant, sources)


def test_every_undo_patch_fits_its_series() -> None:
    for folder in (ROOT / "patches").glob("*/undo"):
        subjects = {path.name: series.subject(path) for path in series.Series(folder.parent).patches()}
        for path in folder.glob("*.patch"):
            assert path.read_text().startswith(f'Without "{subjects[path.name]}":\n')
            tree = BUILD / "tree" / folder.parent.name
            done = subprocess.run(["git", "apply", "--check", str(path)], cwd=tree, capture_output=True, text=True)
            assert done.returncode == 0, f"{path}: {done.stderr}"
