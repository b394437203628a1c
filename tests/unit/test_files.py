"""A file is replaced as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import files


def test_text_and_bytes_are_written(tmp_path: Path) -> None:
    files.replace(tmp_path / "new", "ä\n")
    assert (tmp_path / "new").read_bytes() == b"\xc3\xa4\n"
    files.replace(tmp_path / "new", b"\xff")
    assert (tmp_path / "new").read_bytes() == b"\xff"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def write_half(path: Path, content: bytes) -> None:
        with path.open("wb") as handle:
            handle.write(content[: len(content) // 2])
        raise error

    (tmp_path / "results.json").write_text("old")
    monkeypatch.setattr(Path, "write_bytes", write_half)
    with pytest.raises(error):
        files.replace(tmp_path / "results.json", "the new content")
    monkeypatch.undo()
    assert (tmp_path / "results.json").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
