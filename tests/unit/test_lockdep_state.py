"""Lockdep that has switched itself off fails a run, and so does a run that does not say; what a run depends on."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from scripts import flavours, lock, rpms, tested
from tests.kernel import lockdep, lockdep_state
from tests.kernel.gate import Gate, Work
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
        self.silence = 60.0
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
    gate = Gate(flavour, Machine(state), "", Work(), Results())  # type: ignore[arg-type]
    gate.scan()
    assert gate.results.reasons == reasons


def test_a_changed_program_repeats_the_run_that_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lockdep.keys()
    monkeypatch.setattr(rpms, "TESTS", shutil.copytree(rpms.TESTS, tmp_path / "selftests"))
    assert lockdep.keys() == before
    with (tmp_path / "selftests" / "thp_memcg_v1.c").open("a") as program:
        program.write("/* changed */\n")
    after = lockdep.keys()
    assert after["v2"] == before["v2"]
    assert after["v1"] != before["v1"]
    with (tmp_path / "selftests" / "thp_blocks.c").open("a") as shared:
        shared.write("/* changed */\n")
    assert set(lockdep.keys().values()).isdisjoint(after.values())


def test_a_changed_source_configuration_or_patch_repeats_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lockdep.keys()
    with monkeypatch.context() as patched:
        # A later revision of a package has the same version.
        revised = replace(lock.used(), sha256="0" * 64)
        patched.setattr(lock, "used", lambda: revised)
        assert set(lockdep.keys().values()).isdisjoint(before.values())
    with monkeypatch.context() as patched:
        config = tmp_path / "lockdep.config"
        config.write_text("CONFIG_PROVE_LOCKING=n\n")
        patched.setattr(lockdep, "EXTRA", config)
        assert set(lockdep.keys().values()).isdisjoint(before.values())
    monkeypatch.setattr(tested, "diff", lambda patch: "another patch")
    assert set(lockdep.keys().values()).isdisjoint(before.values())


def test_what_has_passed_as_it_is_boots_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record = tested.Record(tmp_path, lockdep.KIND)
    record.write(lockdep.keys())
    monkeypatch.setattr(tested, "Record", lambda folder, kind: record)
    monkeypatch.setattr("sys.argv", ["lockdep", "--changed"])
    monkeypatch.setattr(lockdep, "build_kernel", lambda: pytest.fail("it builds a kernel"))
    lockdep.command()
    assert "lockdep: nothing to do, all 3 are as they were tested" in capsys.readouterr().out
