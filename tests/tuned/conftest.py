"""Each file of tests has a host of its own, on the kernel that its KERNEL names, with the profiles installed by dnf."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import gate, image, repo, upstream
from tests.lab.host import Host
from tests.lab.tuned import LOG, THP, VARIABLES, Tuned, Values
from tests.lab.vm import RUN, Vm

PROFILES = "tuned-profiles-thp"
# Nothing a kernel begins with and nothing a profile sets, so that whatever returns or stays can be told apart.
INITIAL = {
    "enabled": "madvise",
    "defrag": "defer",
    "shrink_underused": "0",
    "underused_max_ptes_none": "333",
    "khugepaged/max_ptes_none": "444",
}


def boot(host: Host, kernel: str) -> None:
    """Have the host run one of the kernels, installed on the way."""
    if kernel == "upstream":
        host.boot_once(upstream.install(host.vm))
    elif kernel == "kernel-thp":
        host.install("kernel-thp")
        host.boot_once(host.vm.run(f"rpm -q --qf '{gate.UNAME_FORMAT}' {gate.PACKAGE}").text)
    else:
        assert kernel == "stock"


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest) -> Iterator[Host]:
    name = request.module.__name__.rsplit(".")[-1]
    with repo.served() as url, Vm(image.build(), RUN / f"tuned-{name}", name) as vm:
        vm.wait_ssh()
        found = Host(vm)
        stock = vm.run("uname -r").text
        vm.run(f"bootctl set-default {found.entry(stock)}")
        found.use_repository(url)
        found.install(PROFILES)
        boot(found, request.module.KERNEL)
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
