"""Lab hosts as for the kernel's tests, with the repository at hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import repo
from lab.host import Host
from lab.vm import Vm
from tests.kernel.conftest import host as host


@pytest.fixture(scope="module", autouse=True)
def repository(host: Vm) -> Iterator[None]:
    with repo.served() as url:
        Host(host).use_repository(url)
        yield
