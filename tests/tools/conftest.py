"""Lab hosts as for the kernel's tests, with the repository at hand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernel.conftest import host as host
from tests.lab import repo
from tests.lab.host import Host
from tests.lab.vm import Vm


@pytest.fixture(scope="module", autouse=True)
def repository(host: Vm) -> Iterator[None]:
    with repo.served() as url:
        Host(host).use_repository(url)
        yield
