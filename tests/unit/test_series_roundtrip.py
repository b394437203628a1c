"""The series becomes a tree and comes back byte for byte; what does not apply strictly is refused by name."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scripts import lock, series
from scripts.console import UserError
from scripts.lock import Source

RARE = "rare-take-out-a-line-whose-subject-is-so-long-that.patch"
LINES = "".join(f"line {number}\n" for number in range(1, 31))


class Toy:
    """A small source, its tree and its series."""

    def __init__(self, folder: Path) -> None:
        pristine = folder / "linux-9.9.9"
        pristine.mkdir()
        (pristine / "a.c").write_text(LINES)
        (pristine / "Makefile").write_text("all:\n")
        self.tarball = folder / "linux-9.9.9.tar.xz"
        with tarfile.open(self.tarball, "w:xz") as archive:
            archive.add(pristine, pristine.name)
        (folder / "patches").mkdir()
        self.series = series.Series(folder / "patches")
        self.tree = series.Tree(folder / "tree")
        self.sha = lock.sha256(self.tarball)

    def build(self) -> None:
        source = Source("linux", "9.9.9", self.sha, "debian")
        if not self.tree.exists:
            self.tree.create(self.tarball, self.sha)
        series.build_tree(self.series, self.tree, source)

    def refresh(self) -> None:
        series.write_back(self.series, self.tree)

    def commit(self, old: str, new: str, message: str, name: str = "a.c") -> None:
        file = self.tree.folder / name
        file.write_text(file.read_text().replace(old, new))
        self.tree.git("commit", "--quiet", "--all", "--message", message, "--date=2026-01-02T03:04:05+0100")

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.series.folder.iterdir()}

    def forget_tree(self) -> None:
        self.tree.folder.rename(self.tree.folder.with_name("forgotten"))


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    made = Toy(tmp_path)
    made.build()
    return made


def two_commits(toy: Toy) -> None:
    toy.commit(
        "line 5\n",
        "line five\n",
        "mm: change five\n\nBecause of a \u00fcber-long\n  indented reason.\n\nSigned-off-by: x",
    )
    toy.commit(
        "line 25\n", "", "mm/toy: [rare] take out a line whose subject is so long that format-patch has to fold it"
    )


def test_round_trip_is_exact(toy: Toy) -> None:
    two_commits(toy)
    toy.refresh()
    everything = "--format=%T %an %ae %aI %B"
    before, commits = toy.content(), toy.tree.git("log", everything)
    toy.forget_tree()
    toy.build()
    assert toy.tree.git("log", everything) == commits
    toy.refresh()
    assert toy.content() == before
    assert [path.name for path in toy.series.patches()] == ["change-five.patch", RARE]


def test_users_git_settings_change_nothing(toy: Toy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_commits(toy)
    toy.refresh()
    before = toy.content()
    settings = tmp_path / "gitconfig"
    settings.write_text('[diff]\n\tnoprefix = true\n\tcontext = 9\n[format]\n\tsignature = "mine"\n\tsignoff = true\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(settings))
    monkeypatch.setenv("HOME", str(tmp_path))
    toy.refresh()
    assert toy.content() == before


def test_comments_of_the_list_survive(toy: Toy) -> None:
    toy.series.list.write_text("# why the series is what it is\n")
    toy.build()
    two_commits(toy)
    toy.refresh()
    assert toy.series.lines()[0] == "# why the series is what it is"
    assert toy.series.lines()[1:] == [path.name for path in toy.series.patches()]


def test_offset_is_fine(toy: Toy) -> None:
    two_commits(toy)
    toy.refresh()
    first = toy.series.patches()[0]
    first.write_text(first.read_text().replace("@@ -2,7 +2,7 @@", "@@ -4,7 +4,7 @@"))
    toy.build()
    assert "line five" in (toy.tree.folder / "a.c").read_text()


def test_fuzz_is_refused_and_the_patch_named(toy: Toy) -> None:
    two_commits(toy)
    toy.refresh()
    second = toy.series.patches()[1]
    second.write_text(second.read_text().replace(" line 22\n", " line twenty-two\n"))
    with pytest.raises(UserError, match=f"patch 2 of 2, {second.name}, does not apply without fuzz"):
        toy.build()


def three_patches(toy: Toy) -> None:
    """Make a series of which the second patch does not apply."""
    two_commits(toy)
    toy.commit("line 15\n", "line fifteen\n", "mm: change fifteen")
    toy.refresh()
    second = toy.series.patches()[1]
    second.write_text(second.read_text().replace(" line 22\n", " line twenty-two\n"))
    with pytest.raises(UserError, match=r"patch 2 of 3, .* does not apply without fuzz .*git am --reject"):
        toy.build()


def test_series_goes_on_behind_what_was_applied_by_hand(toy: Toy) -> None:
    three_patches(toy)
    toy.commit("line 25\n", "line by hand\n", series.subject(toy.series.patches()[1]))
    for _ in range(2):
        toy.build()
        text = (toy.tree.folder / "a.c").read_text()
        assert all(line in text for line in ("line five\n", "line by hand\n", "line fifteen\n"))
    toy.refresh()
    assert "+line by hand" in toy.series.patches()[1].read_text()
    toy.forget_tree()
    toy.build()
    assert (toy.tree.folder / "a.c").read_text() == text


def test_work_by_hand_survives_a_later_patch_that_does_not_apply(toy: Toy) -> None:
    three_patches(toy)
    third = toy.series.patches()[2]
    third.write_text(third.read_text().replace(" line 16\n", " line sixteen\n"))
    toy.commit("line 25\n", "line by hand\n", series.subject(toy.series.patches()[1]))
    for _ in range(2):
        with pytest.raises(UserError, match="patch 3 of 3"):
            toy.build()
        assert "line by hand" in (toy.tree.folder / "a.c").read_text()


def test_commit_by_hand_under_another_subject_is_named(toy: Toy) -> None:
    three_patches(toy)
    toy.commit("line 25\n", "line by hand\n", "mm: something else")
    with pytest.raises(UserError, match=r"commit 2 in .* is 'mm: something else', patch 2 of the series"):
        toy.build()


def test_uncommitted_work_is_never_thrown_away(toy: Toy) -> None:
    (toy.tree.folder / "a.c").write_text("mine\n")
    for action in (toy.build, toy.refresh):
        with pytest.raises(UserError, match=r"uncommitted work: a\.c"):
            action()
    assert (toy.tree.folder / "a.c").read_text() == "mine\n"


def test_unrefreshed_commits_are_never_thrown_away(toy: Toy) -> None:
    two_commits(toy)
    head = toy.tree.head()
    with pytest.raises(UserError, match="make refresh"):
        toy.build()
    assert toy.tree.head() == head


def test_patches_changed_on_both_sides_are_refused(toy: Toy) -> None:
    two_commits(toy)
    toy.refresh()
    first = toy.series.patches()[0]
    first.write_text(first.read_text().replace("Because", "For"))
    toy.commit("line 9\n", "line nine\n", "mm: a third")
    with pytest.raises(UserError, match="changed after the tree was made"):
        toy.refresh()


@pytest.mark.parametrize("break_it", ["stray", "missing", "twice"])
def test_list_and_files_must_agree(toy: Toy, break_it: str) -> None:
    two_commits(toy)
    toy.refresh()
    first = toy.series.patches()[0].name
    if break_it == "stray":
        (toy.series.folder / "stray.patch").write_text("")
    elif break_it == "missing":
        (toy.series.folder / first).unlink()
    else:
        toy.series.list.write_text(toy.series.list.read_text() + f"{first}\n")
    with pytest.raises(UserError, match=r"\.patch"):
        toy.series.patches()


@contextmanager
def before_last(toy: Toy) -> Iterator[None]:
    """Take the last commit off, and put it back afterwards."""
    last = toy.tree.head()
    toy.tree.git("reset", "--quiet", "--hard", "HEAD~")
    yield
    toy.tree.git("cherry-pick", last)


def test_an_inserted_patch_changes_no_other_file(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    two_commits(toy)
    toy.refresh()
    before = toy.content()
    capsys.readouterr()
    with before_last(toy):
        toy.commit("all:\n", "all: a.o\n", "mm: build a.o", "Makefile")
    toy.refresh()
    after = toy.content()
    assert [path.name for path in toy.series.patches()] == ["change-five.patch", "build-a-o.patch", RARE]
    assert after == {**before, **{name: after[name] for name in ("build-a-o.patch", "series")}}
    assert "build-a-o.patch is new: mm: build a.o" in capsys.readouterr().out


def test_a_patch_inserted_in_the_same_file_renames_no_other(toy: Toy) -> None:
    """git names the content that a patch is made for in its `index` lines, so these follow."""
    two_commits(toy)
    toy.refresh()
    before = toy.content()
    with before_last(toy):
        toy.commit("line 15\n", "line fifteen\n", "mm: change fifteen")
    toy.refresh()
    after = toy.content()
    assert [path.name for path in toy.series.patches()] == ["change-five.patch", "change-fifteen.patch", RARE]
    assert after["change-five.patch"] == before["change-five.patch"]
    assert re.sub(rb"(?m)^index .*", b"", after[RARE]) == re.sub(rb"(?m)^index .*", b"", before[RARE])


def test_a_chosen_name_is_kept(toy: Toy) -> None:
    two_commits(toy)
    toy.refresh()
    (toy.series.folder / RARE).rename(toy.series.folder / "rare.patch")
    toy.series.list.write_text(toy.series.list.read_text().replace(RARE, "rare.patch"))
    toy.build()
    with before_last(toy):
        toy.commit("line 15\n", "line fifteen\n", "mm: change fifteen")
    toy.refresh()
    names = ["change-five.patch", "change-fifteen.patch", "rare.patch"]
    assert [path.name for path in toy.series.patches()] == names


def test_a_reworded_subject_gets_a_new_file_and_says_so(toy: Toy, capsys: pytest.CaptureFixture[str]) -> None:
    two_commits(toy)
    toy.refresh()
    with before_last(toy):
        toy.tree.git("commit", "--quiet", "--amend", "--message=mm: spell five")
    toy.refresh()
    assert [path.name for path in toy.series.patches()] == ["spell-five.patch", RARE]
    printed = capsys.readouterr().out
    assert "spell-five.patch is new: mm: spell five" in printed
    assert "change-five.patch was removed, no commit has its subject: mm: change five" in printed


def test_a_dropped_commit_takes_its_file_along(toy: Toy) -> None:
    two_commits(toy)
    toy.refresh()
    toy.tree.git("reset", "--quiet", "--hard", "HEAD~")
    toy.refresh()
    assert {path.name for path in toy.series.folder.iterdir()} == {"change-five.patch", "series"}


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("mm/huge_memory: split underused THPs", "split-underused-thps"),
        ("KVM: arm64: do not flag the zeropage", "do-not-flag-the-zeropage"),
        ("mm, oom: wait", "wait"),
        (f"mm: {'x' * 60}", "x" * 50),
        (f"mm: {'x' * 50} y", "x" * 50),
        (f"mm: a {'x' * 50}", "a"),
        ("mm: \u00fc", "patch"),
    ],
)
def test_a_subject_makes_a_name(title: str, name: str) -> None:
    assert series.slug(title) == name


def test_equal_subjects_get_unlike_names(toy: Toy) -> None:
    toy.commit("line 5\n", "line five\n", "mm: spell")
    toy.commit("line 25\n", "line twenty-five\n", "mm: spell")
    toy.refresh()
    assert [path.name for path in toy.series.patches()] == ["spell.patch", "spell-2.patch"]
    before = toy.content()
    toy.refresh()
    assert toy.content() == before


def test_the_real_series_comes_back_byte_for_byte(tmp_path: Path) -> None:
    patches, tree = series.place(lock.used())
    tree.git(*series.FORMAT, f"--output-directory={tmp_path}", "base..HEAD")
    made = [path.read_bytes() for path in sorted(tmp_path.glob("*.patch"))]
    assert made == [path.read_bytes() for path in patches.patches()]


def test_spec_lists_the_series() -> None:
    patches, _ = series.place(lock.used())
    block = series.SPEC_BLOCK.search(series.SPEC.read_text())
    assert block is not None
    assert block[0] == series.spec_lines(patches)
