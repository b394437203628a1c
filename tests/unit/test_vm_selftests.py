"""The comparison with the stock kernel: what is worse is found, what is as bad or better is not."""

from __future__ import annotations

import pytest

from scripts.console import UserError
from tests.kernel import vm_selftests
from tests.kernel.vm_selftests import Outcome, Program, decided, evaluate, most, parse_list, subtests, worse

PROGRAM = Program("transhuge-stress 256", 30, endless=False)
ENDLESS = Program("transhuge-stress 256", 30, endless=True)


@pytest.mark.parametrize(
    ("program", "code", "verdict"),
    [
        (PROGRAM, 0, ("pass", "")),
        (PROGRAM, 4, ("skip", "exit code 4")),
        (PROGRAM, 1, ("fail", "exit code 1")),
        (PROGRAM, 124, ("fail", "no end within 30 s")),
        (PROGRAM, 139, ("fail", "killed by signal 11")),
        (ENDLESS, 124, ("pass", "")),
        (ENDLESS, 1, ("fail", "exit code 1")),
        (ENDLESS, 137, ("fail", "killed by signal 9")),
    ],
)
def test_exit_codes(program: Program, code: int, verdict: tuple[str, str]) -> None:
    assert evaluate(program, code) == verdict


def test_tests_of_a_program_are_read() -> None:
    lines = ["TAP version 13", "ok 1 first", "not ok 2 second", "ok 3 # SKIP third", "ok 4 - first", "#  ok"]
    assert subtests(lines) == {"first": "pass", "second": "fail", "": "skip", "first #2": "pass"}


def test_khugepaged_has_a_form_of_its_own() -> None:
    good, bad = "step... \033[32mOK\033[0m", "step..... \033[31mTimeout\033[0m"
    lines = [good, "", "Run test: full (madvise:anon)", good, "Run test: empty (madvise:anon)", bad, good]
    assert subtests(lines) == {"full (madvise:anon)": "pass", "empty (madvise:anon)": "fail"}


def outcome(verdict: str, **tests: str) -> list[Outcome]:
    return [Outcome("prog", verdict, "why", 1.0, tests)]


@pytest.mark.parametrize(("stock", "thp"), [("pass", "skip"), ("pass", "fail"), ("skip", "fail")])
def test_worse_is_found(stock: str, thp: str) -> None:
    assert worse(outcome(stock), outcome(thp)) == [f"prog: {thp} (why), on the stock kernel {stock}"]


@pytest.mark.parametrize(("stock", "thp"), [("fail", "fail"), ("fail", "pass"), ("skip", "pass"), ("pass", "pass")])
def test_as_bad_or_better_is_not(stock: str, thp: str) -> None:
    assert worse(outcome(stock), outcome(thp)) == []


def test_a_test_that_is_worse_or_gone_is_found_in_a_program_that_fails_anyway() -> None:
    found = worse(outcome("fail", a="pass", b="pass", c="fail"), outcome("fail", a="fail", c="fail"))
    assert [line.split(":")[1] for line in found] == [" `a`", " `b`"]


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [
        (["pass"], "pass"),
        (["skip"], "skip"),
        (["fail", "fail"], "fail"),
        (["fail", "pass", "pass"], "pass"),
        (["fail", "pass", "fail"], "fail"),
        (["fail", "skip", "pass"], "skip"),
    ],
)
def test_most_tries_decide_where_the_first_one_fails(verdicts: list[str], verdict: str) -> None:
    tries = [one for word in verdicts for one in outcome(word)]
    assert [decided(tries[:count]) for count in range(len(tries) + 1)] == [*[False] * len(tries), True]
    assert (most(tries).verdict, most(tries).tries) == (verdict, len(tries))


def test_most_tries_decide_about_each_test() -> None:
    tries = [*outcome("fail", a="pass", b="fail", c="pass"), *outcome("fail", a="fail", b="fail")]
    assert not decided(tries)
    tries += outcome("fail", a="fail", b="pass", c="pass")
    assert decided(tries)
    assert most(tries).tests == {"a": "fail", "b": "fail", "c": "pass"}


@pytest.mark.parametrize("text", ["", "soft-dirty", "x soft-dirty", "3 a\n4 a"])
def test_a_bad_list_is_an_error(text: str) -> None:
    with pytest.raises(UserError, match="list"):
        parse_list(text, "list")


def test_the_list_in_use_is_valid() -> None:
    assert parse_list(vm_selftests.LIST.read_text(), vm_selftests.LIST.name)
