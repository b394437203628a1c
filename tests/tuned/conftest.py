"""Each file of tests has a host of its own, prepared as its RECIPE says, with the profiles installed by dnf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab import repo
from lab.host import Host
from lab.snapshots import Recipe
from lab.vm import RUN
from tests.tuned.daemon import LOG, THP, VARIABLES, Tuned, Values

PROFILES = "tuned-profiles-thp"
# Nothing a kernel begins with and nothing a profile sets, so that whatever returns or stays can be told apart.
INITIAL = {
    "enabled": "madvise",
    "defrag": "defer",
    "shrink_underused": "0",
    "underused_max_ptes_none": "333",
    "khugepaged/max_ptes_none": "444",
}


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    recipe: Recipe = request.module.RECIPE
    with repo.served() as url, recipe.build().machine(RUN / request.module.__name__.removeprefix("tests.")) as vm:
        vm.wait_ssh()
        found = Host(vm)
        found.use_repository(url)
        found.install(PROFILES)
        vm.write("/root/watch_writes.py", Path(__file__).with_name("watch_writes.py").read_text())
        vm.run("systemctl start tuned")
        yield found


@pytest.fixture
def initial(host: Host) -> Values:
    """The values a host has before it gets a profile, as far as its kernel has them."""
    return {node: INITIAL[node] for node in Tuned(host.vm).values()}


@pytest.fixture
def tuned(host: Host, initial: Values) -> Iterator[Tuned]:
    """tuned without a profile, on a host that is as it was before the first."""
    found = Tuned(host.vm)
    host.vm.run(f"systemctl start tuned && cp {VARIABLES} /run/variables.conf")
    found.adm("off")
    found.write(initial)
    host.vm.run(f": > {LOG}")
    yield found
    host.vm.run(f"cp /run/variables.conf {VARIABLES}; rm -rf /etc/tuned/test-*; umount {THP}", check=False)
