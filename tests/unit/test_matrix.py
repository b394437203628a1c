"""The matrix: all combinations are there, one that did not run fails, and its list says what it means."""

from __future__ import annotations

import pytest

from scripts.console import UserError
from tests.kernel import matrix
from tests.kernel.matrix import Combination


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
