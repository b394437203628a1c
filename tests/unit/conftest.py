"""Have the tests of the Ansible collection find it under its name, as Ansible does."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts import collection

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
