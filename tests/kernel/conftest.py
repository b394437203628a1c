"""One gate run is shared by the whole suite, and one host by each file of tests that break things."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab import snapshots
from lab.snapshots import Recipe
from lab.vm import RUN, Vm
from tests.kernel import gate
from tests.kernel.results import Results


@pytest.fixture(scope="session")
def results() -> Results:
    """The last gate run if it tested the present packages, else a new one."""
    return gate.latest()


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest) -> Iterator[Vm]:
    """A host from the snapshot that the file's RECIPE names; without one, it runs the stock kernel."""
    recipe: Recipe = getattr(request.module, "RECIPE", snapshots.STOCK)
    with recipe.build().machine(RUN / request.module.__name__.removeprefix("tests.")) as vm:
        vm.wait_ssh()
        yield vm
