"""What counts as a proof: the test's own `not ok` without the patch, and its own `ok` with it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts import series
from scripts.console import UserError
from tests.mutation import run as mutation
from tests.mutation.run import Claim, Proof
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
    ("patch", "verdict", "holds"),
    [(8, "fail", True), (8, "pass", False), (8, "lost", False), (0, "pass", True), (0, "skip", False)],
)
def test_only_a_verdict_of_the_test_itself_proves(patch: int, verdict: str, holds: bool) -> None:
    assert Proof(patch, "a.one", "key", verdict, "").holds is holds


def test_a_header_says_what_is_claimed(tmp_path: Path) -> None:
    head = f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nSubject: mm: x\n\nbody\n\nUpstream: none (x)\nPitfalls: none\n"
    end = "Signed-off-by: someone\n---\n diff\n"
    one, two = tmp_path / "0001-x.patch", tmp_path / "0002-x.patch"
    one.write_text(f"{head}Proved-by: a.one,\n a.two\n{end}")
    two.write_text(f"{head}Proved-by: none (saves time)\n{end}")
    first, second = mutation.claims([one, two], ["c1", "c2"])
    assert (first.number, first.commit, first.tests) == (1, "c1", ("a.one", "a.two"))
    assert (second.tests, second.reason) == ((), "none (saves time)")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> series.Tree:
    """A series of two patches, of which the second builds on the first."""
    folder = tmp_path / "tree"
    folder.mkdir()
    made = series.Tree(folder)
    made.git("init", "--quiet", "--initial-branch=thp")
    for number, text in enumerate(["a\n", "a\nb\n", "a\nb and c\n"]):
        (folder / "file").write_text(text)
        made.git("add", "file")
        made.git("commit", "--quiet", f"--message={number}")
    monkeypatch.setattr(mutation, "SOURCE", folder)
    return made


def claim(tmp_path: Path, tree: series.Tree, number: int) -> Claim:
    commit = tree.git("rev-parse", f"HEAD~{2 - number}")
    return Claim(number, tmp_path / ("first.patch", "second.patch")[number - 1], commit, ("a.one",), "")


def test_the_last_patch_reverts(tmp_path: Path, tree: series.Tree) -> None:
    assert mutation.take_away(tree, claim(tmp_path, tree, 2)) == "revert"
    assert (tree.folder / "file").read_text() == "a\nb\n"


def test_what_does_not_revert_needs_an_undo_patch(tmp_path: Path, tree: series.Tree) -> None:
    with pytest.raises(UserError, match=r"later patches build on first.patch.*write .*undo/first.patch"):
        mutation.take_away(tree, claim(tmp_path, tree, 1))


def test_an_undo_patch_goes_first_and_must_fit(tmp_path: Path, tree: series.Tree) -> None:
    undo = tmp_path / "undo" / "first.patch"
    undo.parent.mkdir()
    lines = ["--- a/file", "+++ b/file", "@@ -1,2 +1,2 @@", " a", "-b and c", "+c"]
    undo.write_text("Without it.\n\n" + "\n".join(lines) + "\n")
    assert mutation.take_away(tree, claim(tmp_path, tree, 1)) == "first.patch"
    assert (tree.folder / "file").read_text() == "a\nc\n"
    with pytest.raises(UserError, match=r"first.patch does not apply .*mend"):
        mutation.take_away(tree, claim(tmp_path, tree, 1))


def test_every_undo_patch_fits_its_series() -> None:
    for folder in (mutation.ROOT / "patches").glob("*/undo"):
        subjects = {path.name: series.subject(path) for path in series.Series(folder.parent).patches()}
        for path in folder.glob("*.patch"):
            assert path.read_text().startswith(f'Without "{subjects[path.name]}":\n')
            tree = mutation.BUILD / "tree" / folder.parent.name
            done = subprocess.run(["git", "apply", "--check", str(path)], cwd=tree, capture_output=True, text=True)
            assert done.returncode == 0, f"{path}: {done.stderr}"
