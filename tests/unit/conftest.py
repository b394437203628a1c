"""What tests share; those of the Ansible collection find it under its name, as Ansible does."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts import collection, lock

TOOLS = Path(sys.executable).parent

sys.path.insert(0, str(collection.link()))


@pytest.fixture(scope="session")
def ansible(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """The environment in which Ansible finds the collection, and leaves no traces elsewhere."""
    home = tmp_path_factory.mktemp("ansible")
    return {
        **os.environ,
        "PATH": f"{TOOLS}:{os.environ['PATH']}",
        "HOME": str(home),
        "PWD": str(home),
        "ANSIBLE_HOME": str(home / ".ansible"),
        "ANSIBLE_COLLECTIONS_PATH": str(collection.link()),
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "ANSIBLE_NOCOLOR": "1",
    }


@pytest.fixture
def own_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a test read and write a lock, and fetch sources, in a directory of its own."""
    (tmp_path / "sources").mkdir()
    monkeypatch.setattr(lock, "SOURCES", tmp_path / "sources")
    monkeypatch.setattr(lock, "USED", tmp_path / "sources" / "used.lock")
    monkeypatch.setattr(lock, "LOCK", tmp_path / "sources.lock")
