"""The record of what has passed: what it says is changed, and what a kind of test leaves alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.tested import Record

KEYS = {"first": "1", "second": "2"}


def test_an_empty_record_asks_for_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tested.json").write_text("{}\n")
    assert Record(tmp_path, "mutation").changed(KEYS) == ["first", "second"]
    assert "mutation: first has not been tested" in capsys.readouterr().out


def test_only_what_has_changed_is_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = Record(tmp_path, "mutation")
    record.write(KEYS)
    assert record.changed({**KEYS, "second": "3"}) == ["second"]
    assert "mutation: second has changed since it was tested" in capsys.readouterr().out
    assert record.changed(KEYS) == []
    assert "mutation: nothing to do, all 2 are as they were tested" in capsys.readouterr().out


def test_a_kind_of_test_leaves_the_others_alone(tmp_path: Path) -> None:
    Record(tmp_path, "mutation").write(KEYS)
    Record(tmp_path, "series-check").write({"first": "9"})
    assert Record(tmp_path, "mutation").read() == KEYS
    assert Record(tmp_path, "series-check").read() == {"first": "9"}
