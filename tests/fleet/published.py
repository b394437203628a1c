"""Fixtures for a file of tests whose repository gets newer packages while its hosts use it.

A file that imports them uses them instead of the shared repository.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import repo
from tests.fleet.repositories import Published


@pytest.fixture(scope="module")
def published(folder: Path) -> Published:
    found = Published(folder / "repo")
    found.publish(repo.REPO)
    return found


@pytest.fixture(scope="module")
def repository(published: Published) -> Iterator[str]:
    """One address, at which newer packages appear later."""
    with repo.served(published.link) as url:
        yield url
