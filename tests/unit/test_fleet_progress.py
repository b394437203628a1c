"""The callback that shows a run by its batches."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.progress import Batches, span

from tests.unit.plays import GONE, Variables, play, there


def test_what_is_left_takes_as_long_as_what_is_over() -> None:
    batches = Batches("play", (1, 10, 50, 39))
    assert batches.begin(100.0) == "batch 1 of 4, hosts 1 to 1 of 100"
    assert batches.begin(700.0) == "batch 2 of 4, hosts 2 to 11 of 100, about 30 min left"
    assert batches.begin(2100.0) == "batch 3 of 4, hosts 12 to 61 of 100, about 33 min left"
    assert batches.begin(2700.0) == "batch 4 of 4, hosts 62 to 100 of 100, about 14 min left"
    assert (batches.age(2760.0), batches.total(2760.0)) == (60.0, 2660.0)


def test_a_play_without_batches_is_one() -> None:
    assert Batches("play", ()).begin(1.0) == "all hosts"


def test_times_are_told_in_what_they_are_long_in() -> None:
    assert [span(seconds) for seconds in (59.6, 100, 5900, 7260)] == ["60 s", "2 min", "98 min", "2 h 1 min"]


def test_it_is_documented(ansible: Mapping[str, str]) -> None:
    words = ["ansible-doc", "-t", "callback", "kernel_thp.fleet.progress"]
    done = subprocess.run(words, env=ansible, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "stdout_callback=kernel_thp.fleet.progress" in done.stdout


def test_batches_steps_failures_and_verdicts_are_shown_and_no_tasks(ansible: Mapping[str, str], tmp_path: Path) -> None:
    hosts: dict[str, Variables] = {"h1": there(tmp_path), "h2": GONE}
    own = {**ansible, "ANSIBLE_STDOUT_CALLBACK": "kernel_thp.fleet.progress"}
    # In check mode the second batch begins although nobody in the first one is well.
    words = ("--check", "-e", '{"thp_fleet_serial": [1], "thp_fleet_max_failed": 2}')
    played = play(own, tmp_path, hosts, "rollout", *words)
    shown = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in played.output.splitlines()]
    assert shown[:2] == ["Roll kernel-thp out", "batch 1 of 2, hosts 1 to 1 of 2"]
    batch, step = (
        r"batch 2 of 2, hosts 2 to 2 of 2, about \d+ (s|min) left",
        r"  preflight, \d+ (s|min) after the batch began",
    )
    assert [bool(re.fullmatch(batch, line)) for line in shown].count(True) == 1, shown
    assert [bool(re.fullmatch(step, line)) for line in shown].count(True) == 2, shown
    for begin in ("  h2: kernel_thp.fleet.preflight : Wait for the host", "  2 hosts failed, 2 allowed; no host of"):
        assert [line for line in shown if line.startswith(begin)], (begin, shown)
    assert shown[-1].startswith("ended after ")
    first, last = (shown.index(line) for line in shown if re.match(r"host  |2 hosts: 1 refused, 1 unreachable", line))
    table = shown[first : last + 1]
    assert "TASK" not in played.output and len(shown) - len(table) < 15, played.output
