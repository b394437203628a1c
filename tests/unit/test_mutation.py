"""What counts: the test's own `not ok` on the mutant, by the expected message, and its own `ok` on the whole series."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from scripts import check_headers, series
from scripts.console import BUILD, ROOT, UserError
from tests.mutation import hazards, mutants, run
from tests.mutation.kernels import WHOLE, Result, complaints
from tests.mutation.mutants import Failure, Mutant
from tests.programs import Sources
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


def test_a_splat_belongs_to_the_test_that_ran() -> None:
    lines = ["Linux version 6.1.187", "ok 1 a.one", "BUG: unable to handle page fault", "kernel BUG at mm/x.c:1!"]
    lines += [
        "# a.two: killed by signal 9",
        "not ok 2 a.two",
        "ok 3 a.three # SKIP one node",
        "BUG: Bad page state in process x",
    ]
    during = {"a.one": "", "a.two": "BUG: unable to handle page fault", "a.three": ""}
    assert complaints(lines) == (during, "BUG: Bad page state in process x")


FAILURE = Failure("a.one", r"page \d+: lost")


def result(verdict: str, reason: str = "", complaint: str = "", slug: str = "x") -> Result:
    return Result(slug, "a.one", "key", verdict, reason, complaint)


@pytest.mark.parametrize(
    ("verdict", "reason", "complaint", "shown"),
    [
        ("fail", "page 7: lost", "", True),
        ("fail", "killed by signal 9", "kernel BUG at page 7: lost", True),
        ("lost", "the kernel hung or the program died", "BUG: page 7: lost", True),
        ("fail", "page 7: gained", "", False),
        ("lost", "page 7: lost", "", False),
        ("pass", "page 7: lost", "page 7: lost", False),
        ("skip", "page 7: lost", "", False),
    ],
)
def test_a_test_fails_by_its_own_message_or_by_the_kernels(
    verdict: str, reason: str, complaint: str, shown: bool
) -> None:
    assert run.shows(FAILURE, result(verdict, reason, complaint)) is shown


@pytest.mark.parametrize(
    ("verdict", "complaint", "passed"), [("pass", "", True), ("pass", "BUG: x", False), ("skip", "", False)]
)
def test_on_the_whole_series_a_test_passes_without_a_splat(verdict: str, complaint: str, passed: bool) -> None:
    assert run.passes(result(verdict, complaint=complaint)) is passed


# The files of mutants


HEADER = """Hazard: A9, A11: a bit is lost
Guards: first, second
Fails: a.one: page \\d+: (lost|gained)
Fails: b.one: kernel BUG at
Needs: lockdep
Runs: 3 of 10

"""
DIFF = """diff --git a/file b/file
--- a/file
+++ b/file
@@ -2,3 +2,3 @@ int one(void)
 {
-\treturn 1;
+\treturn 2;
 }
"""


def written(folder: Path, text: str, name: str = "bit-lost") -> Path:
    path = folder / "mutants" / f"{name}.patch"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_names_the_hazard_and_how_it_shows(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + DIFF)
    fails = (Failure("a.one", r"page \d+: (lost|gained)"), Failure("b.one", "kernel BUG at"))
    whole = Mutant(path, "a bit is lost", ("first", "second"), fails, ("A9", "A11"), "lockdep", 3, 10)
    assert mutants.mutants(tmp_path) == [whole]
    short = HEADER.replace("A9, A11: ", "").replace("Needs: lockdep\nRuns: 3 of 10\n", "")
    written(tmp_path, short + DIFF)
    assert mutants.mutants(tmp_path) == [dataclasses.replace(whole, ids=(), needs="", seen=1, runs=1)]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("Guards: first, second\n", "", "begins with 'Hazard Fails Fails Needs Runs'"),
        ("Needs: lockdep\nRuns: 3 of 10\n", "Runs: 3 of 10\nNeeds: lockdep\n", "begins with"),
        ("Needs: ", "Because: ", "begins with"),
        ("Needs: lockdep", "and lockdep", "begins with 'Hazard Guards Fails Fails \\? Runs'"),
        ("10\n\n", "10\n", "begins with"),
        ("diff --git ", "index ", "begins with"),
        ("is lost", "is lost.", "full stop"),
        ("3 of 10", "0 of 10", "3 of 10"),
        ("3 of 10", "11 of 10", "3 of 10"),
        ("a.one: page", "a.one page", "not 'test: message'"),
        ("(lost|gained)", "(lost", "is no pattern"),
        ("kernel BUG at", "[Oo]ops", "for any reason"),
        ("kernel BUG at", ".*", "for any reason"),
    ],
)
def test_what_is_not_in_the_vocabulary_is_an_error(tmp_path: Path, old: str, new: str, problem: str) -> None:
    assert old in HEADER + DIFF
    path = written(tmp_path, (HEADER + DIFF).replace(old, new, 1))
    with pytest.raises(UserError, match=rf"mutants/bit-lost\.patch: .*{problem}"):
        mutants.parse(path)


def toy_mutants(tmp_path: Path) -> list[Mutant]:
    written(tmp_path, HEADER + DIFF)
    written(tmp_path, HEADER.replace("first, second", "third") + DIFF, "other")
    return mutants.mutants(tmp_path)


@pytest.mark.parametrize(
    ("names", "patches", "slugs"),
    [
        ([], [], ["bit-lost", "other"]),
        (["other"], [], ["other"]),
        ([], ["second"], ["bit-lost"]),
        (["other"], ["first"], ["bit-lost", "other"]),
    ],
)
def test_mutants_are_chosen_by_their_names_or_by_their_patches(
    tmp_path: Path, names: list[str], patches: list[str], slugs: list[str]
) -> None:
    assert [mutant.slug for mutant in mutants.chosen(toy_mutants(tmp_path), names, patches)] == slugs


def test_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no mutant othre"):
        mutants.chosen(toy_mutants(tmp_path), ["othre"], [])


def patch(folder: Path, proved: str) -> Path:
    path = folder / "first.patch"
    head = f"From {'0' * 40} Mon Sep 17 00:00:00 2001\nSubject: mm: x\n\nbody\n\nUpstream: none (x)\nPitfalls: none\n"
    path.write_text(f"{head}Proved-by: {proved}\nSigned-off-by: someone\n---\n diff\n")
    return path


def test_what_a_patch_claims_is_shown_by_a_mutant_it_guards_against(tmp_path: Path) -> None:
    written(tmp_path, HEADER.replace("first, second", "first") + DIFF)
    every = mutants.mutants(tmp_path)

    def problems(proved: str) -> list[str]:
        return mutants.problems(every, [patch(tmp_path, proved)], {"a.one", "b.one", "b.two"}, {"A9", "A11"})

    assert problems("a.one,\n b.one") == []
    assert problems("none (saves time)") == []
    assert problems("b.two") == ["first.patch: Proved-by names b.two, and no mutant that it guards against does"]


def test_a_mutant_names_what_exists(tmp_path: Path) -> None:
    written(tmp_path, HEADER.replace("lockdep", "luck") + DIFF)
    found = mutants.problems(mutants.mutants(tmp_path), [patch(tmp_path, "none (x)")], {"a.one"}, {"A9"})
    assert found == [f"bit-lost.patch: {name} does not exist" for name in ("b.one", "A11", "second", "luck")]


# What a result depends on


class Toy:
    """A tree with a mutant, and the selftests that the mutant names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = series.Tree(folder)
        self.tree.git("init", "--quiet", "--initial-branch=thp")
        (folder / "file").write_text(
            "int one(void)\n{\n\treturn 1;\n}\n\nint two(void)\n{\n\treturn 2;\n}\n\nint three(void)\n{\n}\n"
        )
        self.mutant = written(folder, HEADER + DIFF)
        (folder / "Makefile").write_text("TEST_GEN_PROGS := thp_a\nTEST_GEN_PROGS += thp_b\nTEST_GEN_PROGS += thp_c\n")
        (folder / "thp_a.c").write_text('TEST("a.one", one),\nTEST_WITH("a.two", two, 2),\n')
        (folder / "thp_b.c").write_text('TEST("b.one", one),\n')
        (folder / "thp_c.c").write_text('TEST("c.one", one),\n')
        (folder / "thp_run.c").write_text("int main;\n")
        self.commit()

    def commit(self) -> None:
        self.tree.git("add", "--all")
        self.tree.git("commit", "--quiet", "--message=x", "--allow-empty")

    def key(self) -> str:
        return mutants.key(self.tree, mutants.parse(self.mutant), Sources(self.folder))

    def change(self, name: str, old: str, new: str) -> None:
        path = self.folder / name
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new))
        self.commit()


@pytest.fixture
def toy(tmp_path: Path) -> Toy:
    return Toy(tmp_path)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("mutants/bit-lost.patch", "a bit is lost", "a bit gets lost"),
        ("mutants/bit-lost.patch", "first, second", "third"),
        ("mutants/bit-lost.patch", "3 of 10", "2 of 9"),
        ("file", "int three(void)\n{\n", "int three(void)\n{\n\treturn 3;\n"),
        ("file", "int one(", "int zero;\n\nint one("),
        ("thp_c.c", "one)", "other)"),
        ("thp_run.c", "main", "other"),
    ],
)
def test_what_hardly_changes_a_result_changes_no_key(toy: Toy, name: str, old: str, new: str) -> None:
    before = toy.key()
    toy.change(name, old, new)
    assert toy.key() == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("mutants/bit-lost.patch", "return 2", "return 3"),
        ("mutants/bit-lost.patch", "kernel BUG at", "WARNING"),
        ("mutants/bit-lost.patch", "Needs: lockdep\n", ""),
        ("file", "\treturn 1;\n}", "\treturn 1;\n}\n/* end */"),
        ("thp_a.c", "two, 2", "two, 3"),
        ("thp_b.c", "one)", "other)"),
    ],
)
def test_what_may_change_a_result_changes_the_key(toy: Toy, name: str, old: str, new: str) -> None:
    before = toy.key()
    toy.change(name, old, new)
    assert toy.key() != before


def test_a_mutant_that_does_not_fit_is_named(toy: Toy) -> None:
    toy.change("file", "return 1", "return 0")
    with pytest.raises(UserError, match=r"mutants/bit-lost\.patch: it does not apply .*patch failed: file"):
        toy.key()


def test_a_record_keeps_what_passes_and_drops_the_rest() -> None:
    selected = [Mutant(Path(f"{name}.patch"), "x", ("first",), (FAILURE,)) for name in ("good", "bad")]
    results = {
        (slug, "a.one"): result(verdict, reason, slug=slug)
        for slug, verdict, reason in (
            (WHOLE, "pass", ""),
            ("good", "fail", "page 7: lost"),
            ("bad", "fail", "no memory"),
        )
    }
    assert run.survivors(selected, results) == {("bad", "a.one")}
    old = {"good": "old", "bad": "b", "other": "o", "gone": "g"}
    assert run.recorded(old, {"good": "g", "bad": "b", "other": "new"}, selected, results) == {
        "good": "g",
        "other": "o",
    }
    results[WHOLE, "a.one"] = result("fail", slug=WHOLE)
    assert run.recorded({}, {"good": "g", "bad": "b"}, selected, results) == {}


# The mutants of the series


def test_every_test_is_found_in_one_program() -> None:
    assert check_headers.test_names(check_headers.REQUIRED) <= set(Sources().program_of)


def test_every_mutant_fits_the_series() -> None:
    sources = Sources()
    for folder in (ROOT / "patches").glob("*/mutants"):
        every = mutants.mutants(folder.parent)
        keys = mutants.keys(series.Tree(BUILD / "tree" / folder.parent.name), every, sources)
        assert len(keys) == len(every) > 0


# The table


def test_each_required_test_has_a_mutant_or_a_reason() -> None:
    every = [Mutant(Path("x.patch"), "x", ("first",), (FAILURE,))]
    assert hazards.gaps(every, {"b.one": "no swap"}, ["a.one", "b.one"]) == []
    assert hazards.gaps(every, {"a.one": "x", "c.one": "y"}, ["a.one", "b.one"]) == [
        "b.one is in no mutant, and no reason says why",
        "a.one is in a mutant, so it needs no reason",
        "c.one is no required test, and no row",
    ]


def test_a_reason_is_more_than_a_name() -> None:
    assert hazards.without("# x: y\n\na.one: takes a disk: two\n") == {"a.one": "takes a disk: two"}
    with pytest.raises(UserError, match=r"'a\.one' gives no reason"):
        hazards.without("a.one\n")


def test_the_table_has_a_row_for_each_test(tmp_path: Path) -> None:
    every = toy_mutants(tmp_path)[:1]
    made = hazards.page(every, {"c.one": "no swap"}, [patch(tmp_path, "none (x)"), tmp_path / "second.patch"])
    assert "## first\n\nmm: x.\n\n" in made
    assert made.count("| A9, A11: a bit is lost | `bit-lost` (lockdep) | `a.one` |") == 1
    assert "| `a.one` | `page \\d+: (lost\\|gained)`, in 3 of 10 runs |" in made
    assert "| | | `b.one` | `kernel BUG at`, in 3 of 10 runs |" in made
    assert "| `c.one` | no swap |" in made


def test_the_page_is_up_to_date() -> None:
    assert hazards.PAGE.read_text() == hazards.present(), "run `make hazards`"
