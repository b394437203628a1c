"""The matrix: all combinations are there, one that did not run fails, and its list says what it means."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from lab.vm import Line, Result, Vm
from scripts.console import UserError
from tests.kernel import matrix
from tests.kernel.matrix import Combination, Machine


def test_every_combination_is_there() -> None:
    names = [result.name for nodes in matrix.NODES for result in matrix.combinations(nodes)]
    assert sorted(names) == [f"{v}-{s}-{n}" for v in ("v1", "v2") for s in ("disk", "zram") for n in (1, 2)]


def test_a_combination_that_did_not_run_is_a_failure() -> None:
    assert Combination("v1-disk-2").verdict == "fail"
    assert Combination("v1-disk-2", ran=True).verdict == "pass"
    assert Combination("v1-disk-2", ran=True, reasons=["why"]).verdict == "fail"


def test_a_skip_is_for_its_tests_and_combinations() -> None:
    plan = matrix.parse_plan("# why\nrun thp_a\n\nskip a.* in *-1: one node: no other\n", "list")
    assert plan.programs == ["thp_a"]
    assert plan.may_skip("a.moved", "v2-zram-1") == "one node: no other"
    assert plan.may_skip("a.moved", "v2-zram-2") == ""
    assert plan.may_skip("b.moved", "v2-zram-1") == ""


@pytest.mark.parametrize(
    "text",
    ["walk thp_a", "run thp_a\nrun thp_a", "run", "run a b", "run a\nskip b in c", "run a\nskip b in c:", "# nothing"],
)
def test_a_line_that_is_wrong_is_an_error(text: str) -> None:
    with pytest.raises(UserError, match="list"):
        matrix.parse_plan(text, "list")


def test_the_list_in_use_names_programs_that_exist() -> None:
    makefile = (matrix.LIST.parent.parent / "selftests" / "Makefile").read_text()
    for program in matrix.parse_plan(matrix.LIST.read_text(), matrix.LIST.name).programs:
        assert f"{program}\n" in makefile


class FakeVm:
    """A host whose one program prints this and ends with this code, on a kernel with this taint."""

    nodes = 1

    def __init__(self, output: str, code: int, taint: str) -> None:
        listed = "\n".join(line.split()[-1] for line in output.partition("#")[0].splitlines() if " a." in line)
        self.answers = {"--list": Result(0, lines(listed)), "tainted": Result(0, lines(taint))}
        self.program = Result(code, lines(output))

    def run(self, script: str, timeout: float = 0, check: bool = True) -> Result:
        return next((answer for word, answer in self.answers.items() if word in script), self.program)


def lines(text: str) -> list[Line]:
    return [Line(0.0, line) for line in text.splitlines()]


PASSED = "KTAP version 1\n1..2\nok 1 a.one\nok 2 a.two"
FAILED = PASSED.replace("ok 2", "not ok 2")
SKIPPED = "KTAP version 1\n1..1\nok 1 a.one # SKIP needs two nodes"


@pytest.mark.parametrize(
    ("output", "code", "taint", "reason"),
    [
        (PASSED, 0, "0", ""),
        (PASSED, 139, "0", "thp_a: ended with exit code 139, but 0 fits its output"),
        (PASSED, 1, "0", "thp_a: ended with exit code 1, but 0 fits its output"),
        (PASSED, 0, "512", "the kernel is tainted (512)"),
        (FAILED, 0, "0", "thp_a: ended with exit code 0, but 1 fits its output"),
        (FAILED, 1, "0", "a.two: fail"),
        (SKIPPED, 4, "0", "a.one: skip"),
        (SKIPPED, 0, "0", "thp_a: ended with exit code 0, but 4 fits its output"),
    ],
    ids=["good", "killed", "bad-end", "tainted", "hidden-failure", "failure", "skips", "hidden-skips"],
)
def test_a_program_that_ends_otherwise_than_it_says_and_a_taint_are_failures(
    output: str, code: int, taint: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(matrix, "OUT", tmp_path)
    plan = matrix.parse_plan("run thp_a", "list")
    result = Combination("v2-zram-1")
    Machine(cast(Vm, FakeVm(output, code, taint)), "", plan, []).combination(result)
    assert result.verdict == ("fail" if reason else "pass")
    assert not reason or any(found.startswith(reason) for found in result.reasons), result.reasons
