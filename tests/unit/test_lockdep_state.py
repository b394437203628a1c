"""Lockdep that has switched itself off fails a run, and so does a run that does not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import flavours
from tests.kernel import lockdep, lockdep_state
from tests.kernel.gate import Gate
from tests.kernel.results import Results

STATS = " lock-classes:                         1204 [max: 8192]\n debug_locks:                             {}\n"
BOOT = "Linux version 6.1.187+\r\n"
OFF = "lockdep was not at work until the end (debug_locks in /proc/lockdep_stats)"


@pytest.mark.parametrize("text", ["", "cat: /proc/lockdep_stats: No such file or directory", "# debug_locks: 1 of 2"])
def test_a_run_that_does_not_say_is_refused(text: str) -> None:
    assert lockdep_state.problems(text) == [OFF]


def test_the_last_word_counts() -> None:
    on, off = STATS.format(1), STATS.format(0)
    assert lockdep_state.problems(on) == lockdep_state.problems(off + on) == []
    assert lockdep_state.problems(off) == lockdep_state.problems(on + off) == [OFF]


def test_the_run_of_the_small_kernel_reads_it(tmp_path: Path) -> None:
    console = tmp_path / "console.log"
    console.write_text(BOOT + STATS.format(1).replace("\n", "\r\n"))
    assert lockdep.complaints(console) == []
    console.write_text(f"{BOOT}WARNING: held lock freed!\r\n{STATS.format(0)}")
    assert lockdep.complaints(console) == ["kernel splat: WARNING: held lock freed!", OFF]


class Answer:
    def __init__(self, text: str) -> None:
        self.text = text


class Machine:
    """A host whose kernel is untainted and says nothing, but for the state of lockdep."""

    def __init__(self, state: str) -> None:
        self.directory = Path("vm")
        self.answers = {"journalctl": BOOT, "cat /proc/sys/kernel/tainted": "0", "cat /proc/lockdep_stats": state}

    def run(self, script: str, check: bool = True) -> Answer:
        return Answer(next(text for start, text in self.answers.items() if script.startswith(start)))


@pytest.mark.parametrize(
    ("flavour", "state", "reasons"),
    [
        (flavours.FLAVOURS["debug"], STATS.format(1), []),
        (flavours.FLAVOURS["debug"], STATS.format(0), [OFF]),
        (flavours.FLAVOURS["debug"], "", [OFF]),
        (flavours.CLOUD, "", []),
    ],
)
def test_the_gate_of_the_debug_kernel_reads_it(flavour: flavours.Flavour, state: str, reasons: list[str]) -> None:
    gate = Gate(flavour, Machine(state), "", [], Results())  # type: ignore[arg-type]
    gate.scan()
    assert gate.results.reasons == reasons
