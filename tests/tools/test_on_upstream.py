"""thp-validate on Linux 6.12, which has the shrinker but neither our settings nor our counters."""

from __future__ import annotations

import pytest

from lab import snapshots
from lab.vm import Vm
from tests.tools.on_host import expect_exact, problems, start_sparse, stop_sparse, validate, write_setting

RECIPE = snapshots.UPSTREAM
pytestmark = pytest.mark.full


def test_upstream_kernel_is_degraded_and_not_ours(vm: Vm) -> None:
    found = validate(vm)
    assert found["verdict"] == "degraded"
    assert found["kernel"]["flavour"] == "other"
    assert found["thp"]["shrink_underused"] == 1
    assert found["thp"]["underused_max_ptes_none"] is None
    assert problems(found)["kernel-flavour"] == problems(found)["shrinker-threshold"] == "degraded"
    assert found["thp"]["defrag_mode"] is None
    assert found["thp"]["swapin_enabled"] is None
    assert found["blocks"]["sampled"] > 900
    assert found["installed"]["kernels"] == []
    assert found["secure_boot"]["enforced"] is False
    line = vm.run("thp-validate --quiet", check=False)
    assert (line.code, line.text.startswith("THP WARNING - degraded: kernel-flavour: ")) == (1, True)


def test_its_threshold_is_that_of_khugepaged(vm: Vm) -> None:
    write_setting(vm, "khugepaged/max_ptes_none", "409")
    found = validate(vm)
    assert found["thp"]["threshold"] == 409
    assert found["checks"]["shrinker-threshold"] == "ok"


def test_a_size_that_overrides_is_reported(vm: Vm) -> None:
    write_setting(vm, "enabled", "always")
    write_setting(vm, "hugepages-2048kB/enabled", "never")
    assert validate(vm)["checks"]["thp-enabled"] == "degraded"
    write_setting(vm, "hugepages-2048kB/enabled", "inherit")
    assert validate(vm)["checks"]["thp-enabled"] == "ok"


def test_estimate_is_exact_there_too(vm: Vm) -> None:
    write_setting(vm, "khugepaged/max_ptes_none", "409")
    start_sparse(vm)
    estimate = validate(vm, "--estimate", "--cgroup", "/sparse")["estimate"]
    expect_exact(estimate)
    assert [threshold["pages"] for threshold in estimate["total"]["thresholds"] if threshold["in_force"]] == [409]
    stop_sparse(vm)


def test_watching_knows_the_one_counter_it_has(vm: Vm) -> None:
    watch = validate(vm, "--watch", "1")["watch"]
    assert "thp_underused_split_page" in watch["change"]
    assert "thp_underused_scan_page" not in watch["change"]
    assert watch["meaning"]
