"""thp-validate on the stock kernel."""

from __future__ import annotations

from lab.host import Host
from lab.vm import Vm
from scripts.flavours import CLOUD
from tests.tools.on_host import COUNT, ask, expect_exact, set_knob, start_sparse, stop_sparse, wrong


def test_stock_kernel_is_unsupported_and_says_what_to_do(host: Vm) -> None:
    Host(host).install("thp-tools")
    host.run("rpm -V thp-tools")
    found = ask(host)
    assert found["verdict"] == "unsupported"
    assert wrong(found)["kernel-flavour"] == wrong(found)["shrinker-switch"] == "unsupported"
    hints = {reason["id"]: reason["hint"] for reason in found["reasons"]}
    assert hints["kernel-flavour"].startswith(f"install {CLOUD.package} ")


def test_estimate_on_the_stock_kernel_is_exact(host: Vm) -> None:
    set_knob(host, "enabled", "always")
    pid = start_sparse(host)
    expect_exact(ask(host, "--estimate", "--pid", str(pid))["estimate"])
    expect_exact(ask(host, "--estimate", "--cgroup", "/sparse")["estimate"])
    # Reading changed nothing.
    huge = host.run(f"grep AnonHugePages /proc/{pid}/smaps_rollup").text.split()[1]
    assert int(huge) == COUNT * 2048
    stop_sparse(host)
