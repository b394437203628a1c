"""The list of splats: each kind is found in what the kernel prints, going by its source, and nothing else is."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from scripts import lock
from scripts.console import BUILD, ROOT
from tests.unit.splat_samples import defects, harmless
from tools.thp_validate import splat_list
from tools.thp_validate.splat_list import Format

EACH_DEFECT = pytest.mark.parametrize(
    ("name", "line"), [(name, line) for name in defects() for line in defects()[name]]
)
FORMATS = [each for kind in splat_list.KINDS for each in kind.formats]
EACH_FORMAT = pytest.mark.parametrize("format", FORMATS)
# What printf puts in: decimal, hexadecimal, a pointer as such, everything else.
CONVERSION = re.compile(
    r"%[-+ #0]*\d*(?:hh|h|ll|l|L|z|t)?(?:(?P<decimal>[diu])|(?P<hex>[xX])|(?P<pointer>px?(?![A-Za-z]))|s|p[A-Za-z]+)"
)
VALUES = {"decimal": r"-?\d+", "hex": r"[0-9a-f]+", "pointer": r"[0-9a-f]{16}", None: r".*"}
TREE = BUILD / "tree" / lock.read()[0].series
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# Between two literals that the compiler makes one of; in a macro, lines end with a backslash.
JOINT = re.compile(r'"(?:\s|\\\n)+"')
# The same on the console, in dmesg, and on a console on which something else has begun a line.
DRESSES = ("{}", "[   12.104518] {}", "[   12.104518][  T512] {}", "[   12.104518][    C1] {}", "# waiting...{}")


def rendering(format: Format) -> re.Pattern[str]:
    """Return what a message looks like when it is printed."""
    pattern, end = "", 0
    for match in CONVERSION.finditer(format.printed):
        pattern += re.escape(format.printed[end : match.start()]) + VALUES[match.lastgroup]
        end = match.end()
    return re.compile(pattern + re.escape(format.printed[end:]))


@cache
def literals(source: str) -> str:
    """Return the strings in a file of the kernel, one per line."""
    text = (TREE / source).read_text(errors="replace")
    return "\n".join(LITERAL.findall(JOINT.sub("", text)))


# The kinds


def test_every_kind_has_samples_and_the_other_way_round() -> None:
    assert list(defects()) == [kind.name for kind in splat_list.KINDS]
    assert all(defects().values())


@EACH_DEFECT
@pytest.mark.parametrize("dress", DRESSES)
def test_a_defect_is_found_as_what_it_is(name: str, line: str, dress: str) -> None:
    kind = splat_list.kind(dress.format(line))
    assert kind is not None
    assert kind.name == name


@pytest.mark.parametrize(
    ("name", "line"),
    [
        (
            "oops",
            "Oops: general protection fault, probably for non-canonical address 0xdead000000000108: 0000 [#1] SMP",
        ),
        ("oops", "Internal error: Oops: 0000000096000004 [#1] PREEMPT SMP"),
        ("hard-lockup", "watchdog: CPU1: Watchdog detected hard LOCKUP on cpu 1"),
        ("hung-task", "INFO: task khugepaged:40 blocked in I/O wait for more than 120 seconds."),
        ("bug", "BUG: something that no kernel says today"),
    ],
)
def test_other_kernels_are_understood(name: str, line: str) -> None:
    kind = splat_list.kind(line)
    assert kind is not None
    assert kind.name == name


def test_a_hundred_harmless_lines_and_more_are_not_found() -> None:
    assert len(set(harmless())) > 150
    assert [(line, kind.name) for line in harmless() if (kind := splat_list.kind(line))] == []


def test_a_kernel_that_boots_says_where_its_log_begins() -> None:
    assert any(splat_list.START in text for text in literals("init/version-timestamp.c").splitlines())


# Where they come from


@EACH_DEFECT
def test_a_sample_is_what_the_kernel_prints(name: str, line: str) -> None:
    (kind,) = (each for each in splat_list.KINDS if each.name == name)
    assert any(rendering(format).fullmatch(line) for format in kind.formats)


@EACH_FORMAT
def test_a_message_has_a_sample(format: Format) -> None:
    (kind,) = (each for each in splat_list.KINDS if format in each.formats)
    assert any(rendering(format).fullmatch(line) for line in defects()[kind.name])


@EACH_FORMAT
def test_a_message_is_in_the_source_of_the_kernel(format: Format) -> None:
    assert any(format.text in literal for literal in literals(format.source).splitlines())


@pytest.mark.parametrize("format", [each for each in FORMATS if each.before])
def test_what_stands_before_a_message_is_the_kernels_as_well(format: Format) -> None:
    """It is the prefix of the file, by its name or by a macro of a file near by, or part of another message."""
    source = Path(format.source)
    (kind,) = (each for each in splat_list.KINDS if format in each.formats)
    near = {str(each.relative_to(TREE)) for each in (TREE / source.parent).glob("*.c")}
    places = near | {each.source for each in kind.formats}
    made_of_names = format.before in ("%s: ", f"{source.stem}: ")
    assert made_of_names or any(format.before in literals(place) for place in places)


# The list as a file


def test_the_list_is_one_file_under_either_licence() -> None:
    home = ROOT / "tools" / "thp_validate" / "splat_list.py"
    assert home.read_text().splitlines()[0] == "# SPDX-License-Identifier: GPL-2.0-only OR GPL-3.0-or-later"
    for link in (ROOT / "lab", ROOT / "ansible" / "plugins" / "module_utils"):
        assert (link / home.name).is_symlink()
        assert (link / home.name).resolve() == home


# Logs


def test_a_splat_counts_once_and_without_its_time() -> None:
    log = "[ 1.0] Linux version 6.1\n[ 2.0] BUG: a\n[   13.25][   T7] BUG: a\nBUG: a \n[ 4.0] BUG: b\n"
    assert splat_list.splats(log, []) == ["BUG: a", "BUG: b"]


@pytest.mark.parametrize("pattern", ["a$", "^BUG: a", re.escape("[ 1.0] BUG: a")])
def test_what_is_allowed_is_left_out(pattern: str) -> None:
    assert splat_list.splats("[ 1.0] BUG: a\n[ 2.0] BUG: b\n", [pattern]) == ["BUG: b"]
