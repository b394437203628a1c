"""The lock is a text file that says what is wrong with it, and pins one version."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import lock
from scripts.console import ROOT, UserError
from scripts.lock import Source

HASH = "0" * 64
LINUX_SOURCE = f"linux 6.1.9 {HASH} linux-source linux-source-6.1=6.1.9-1"


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "sources.lock"
    monkeypatch.setattr(lock, "LOCK", path)
    return path


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("linux 6.1.9 abc debian", ":2 is not"),
        ("linux 6.1.9", ":2 is not"),
        (f"linux x {HASH} debian", ":2 is not"),
        (f"linux 6.1.9 {HASH} ftp", ":2: unknown kind ftp"),
        (f"linux 6.1.9 {HASH} linux-source", ":2: a line of kind linux-source lacks the package"),
        (f"linux 6.1.9 {HASH} debian linux", ":2: a line of kind debian has no use for a package"),
        ("linux 6.1.9 - debian", ":2: only kernel.org's signature replaces a hash"),
        (f"linux 6.1.9 {HASH} debian\nlinux 6.1.8 {HASH} debian", "at most one of a kind"),
        (f"linux 6.1.9 {HASH} debian\nother 6.1.9 {HASH} kernel.org", "one source"),
        ("", "one source"),
    ],
)
def test_malformed_lock_is_named_by_line(written: Path, line: str, problem: str) -> None:
    written.write_text(f"# why\n{line}\n")
    with pytest.raises(UserError, match=problem):
        lock.read()


def test_newest_version_is_pinned_and_older_lines_stay(written: Path) -> None:
    text = f"# why\nlinux 6.1.10 - kernel.org\n{LINUX_SOURCE}\nlinux 6.1.10 {HASH} debian\n"
    written.write_text(text)
    assert [source.line() for source in lock.read()] == ["linux 6.1.10 - kernel.org\n", f"linux 6.1.10 {HASH} debian\n"]
    lock.write(lock.everything())
    assert written.read_text() == text


def test_package_of_a_line_is_read(written: Path) -> None:
    written.write_text(f"{LINUX_SOURCE}\n")
    assert lock.read() == [Source("linux", "6.1.9", HASH, "linux-source", "linux-source-6.1=6.1.9-1")]


def test_spec_and_lock_name_one_version() -> None:
    spec = ROOT / "SPECS" / "kernel-thp.spec"
    base = lock.read(ROOT / "SOURCES" / "sources.lock")[0].version
    assert f"%{{!?base:%global base {base}}}\n" in spec.read_text()
