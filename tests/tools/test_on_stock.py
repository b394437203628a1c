"""thp-validate on the stock kernel."""

from __future__ import annotations

import pytest

from lab import snapshots
from lab.host import Host
from lab.vm import Vm
from scripts.flavours import CLOUD
from tests.tools.on_host import COUNT, expect_exact, problems, start_sparse, stop_sparse, validate, write_setting

RECIPE = snapshots.STOCK


def test_stock_kernel_is_unsupported_with_a_hint(vm: Vm) -> None:
    vm.run("rpm -V thp-tools")
    found = validate(vm)
    assert found["verdict"] == "unsupported"
    assert problems(found)["kernel-flavour"] == problems(found)["shrinker-switch"] == "unsupported"
    assert found["thp"]["defrag_mode"] is None
    assert found["thp"]["swapin_enabled"] is None
    assert found["blocks"]["sampled"] > 900
    hints = {reason["id"]: reason["hint"] for reason in found["reasons"]}
    assert hints["kernel-flavour"].startswith(f"install {CLOUD.package} ")
    assert found["installed"]["kernels"] == []
    assert found["secure_boot"]["enforced"] is False
    line = vm.run("thp-validate --quiet", check=False)
    assert (line.code, line.text.startswith("THP CRITICAL - unsupported: kernel-flavour: ")) == (2, True)
    assert any(package.startswith("thp-tools-") for package in found["installed"]["packages"])


def test_estimate_on_the_stock_kernel_is_exact(vm: Vm) -> None:
    write_setting(vm, "enabled", "always")
    pid = start_sparse(vm)
    expect_exact(validate(vm, "--estimate", "--pid", str(pid))["estimate"])
    expect_exact(validate(vm, "--estimate", "--cgroup", "/sparse")["estimate"])
    # Reading changed nothing.
    huge = vm.run(f"grep AnonHugePages /proc/{pid}/smaps_rollup").text.split()[1]
    assert int(huge) == COUNT * 2048
    stop_sparse(vm)


@pytest.mark.full
def test_an_installed_kernel_has_to_be_booted(host: Host, vm: Vm) -> None:
    host.install(CLOUD.package)
    found = validate(vm)
    (uname,) = found["installed"]["kernels"]
    hint = next(reason["hint"] for reason in found["reasons"] if reason["id"] == "kernel-flavour")
    assert hint == f"boot {uname}: `{host.loader.once_command(host.entry(uname))}`, then `reboot`"
    vm.run(f"dnf -y remove '{CLOUD.package}*'", timeout=300)
    assert validate(vm)["installed"]["kernels"] == []
