"""Files that the collection replaces on a host keep what others need of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import files

LABEL = "security.selinux"
TYPE = b"system_u:object_r:boot_t:s0\0"


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    path = tmp_path / "entry.conf"
    path.write_text("old")
    try:
        os.setxattr(path, LABEL, TYPE)
    except OSError as error:
        pytest.skip(f"this file system, or this user, has no SELinux labels: {error}")
    return path


def test_a_replaced_file_keeps_its_selinux_label(labelled: Path) -> None:
    assert files.put(labelled, "new")
    assert labelled.read_text() == "new"
    assert os.getxattr(labelled, LABEL) == TYPE


def test_a_file_without_a_label_is_replaced_as_well(tmp_path: Path) -> None:
    path = tmp_path / "entry.conf"
    for content in ("old", "new"):
        assert files.put(path, content)
    assert path.read_text() == "new"
    assert LABEL not in os.listxattr(path)
