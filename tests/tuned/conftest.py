"""tuned on the host that these tests share with those of the tools, see tests/conftest.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.host import Host
from tests.tuned.daemon import DEFRAG_MODE, LOG, THP, VARIABLES, Tuned, Values

# No kernel's default and no profile's value, where there are more than two: a value that returns differs from one that
# stays. Of the switches, only thp-baseline sets what they are here.
INITIAL = {
    "enabled": "madvise",
    "defrag": "defer",
    "shrink_underused": "0",
    "underused_max_ptes_none": "333",
    "khugepaged/max_ptes_none": "444",
    "swapin_enabled": "always",
    DEFRAG_MODE: "0",
}


@pytest.fixture
def initial(host: Host) -> Values:
    """The values of a host before it gets a profile, for the files that its kernel has."""
    return {node: INITIAL[node] for node in Tuned(host.vm).values()}


@pytest.fixture
def tuned(host: Host, initial: Values) -> Iterator[Tuned]:
    """tuned without a profile, on a host with the initial values."""
    found = Tuned(host.vm)
    host.vm.run(f"systemctl start tuned && cp {VARIABLES} /run/variables.conf")
    found.adm("off")
    found.write(initial)
    host.vm.run(f": > {LOG}")
    yield found
    made = "/etc/tuned/test-* /etc/tuned/profiles/test-*"
    host.vm.run(f"cp /run/variables.conf {VARIABLES}; rm -rf {made}; umount {THP}", check=False)
