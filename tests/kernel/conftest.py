"""One gate run is shared by the whole suite, and one host by each file of tests that break things."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab import gate, image
from tests.lab.results import Results
from tests.lab.vm import RUN, Vm


@pytest.fixture(scope="session")
def results() -> Results:
    """The last gate run if it was about the present packages, else a new one."""
    return gate.latest()


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest) -> Iterator[Vm]:
    """A host that runs the stock kernel."""
    with Vm(image.build(), RUN / request.module.__name__.rsplit(".")[-1]) as vm:
        vm.wait_ssh()
        yield vm
