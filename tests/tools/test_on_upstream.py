"""thp-validate on Linux 6.12, which has the shrinker but neither our knobs nor our counters."""

from __future__ import annotations

from lab import snapshots
from lab.host import Host
from lab.vm import Vm
from tests.tools.on_host import ask, expect_exact, set_knob, start_sparse, stop_sparse, wrong

RECIPE = snapshots.UPSTREAM


def test_upstream_kernel_is_degraded_and_told_from_ours(host: Vm) -> None:
    Host(host).install("thp-tools")
    found = ask(host)
    assert found["verdict"] == "degraded"
    assert found["kernel"]["flavour"] == "other"
    assert found["thp"]["shrink_underused"] == 1
    assert found["thp"]["underused_max_ptes_none"] is None
    assert wrong(found)["kernel-flavour"] == wrong(found)["shrinker-threshold"] == "degraded"


def test_its_limit_is_khugepageds(host: Vm) -> None:
    set_knob(host, "khugepaged/max_ptes_none", "409")
    found = ask(host)
    assert found["thp"]["threshold"] == 409
    assert found["checks"]["shrinker-threshold"] == "ok"


def test_a_size_that_overrides_is_noticed(host: Vm) -> None:
    set_knob(host, "enabled", "always")
    set_knob(host, "hugepages-2048kB/enabled", "never")
    assert ask(host)["checks"]["thp-enabled"] == "degraded"
    set_knob(host, "hugepages-2048kB/enabled", "inherit")
    assert ask(host)["checks"]["thp-enabled"] == "ok"


def test_estimate_is_exact_there_too(host: Vm) -> None:
    start_sparse(host)
    estimate = ask(host, "--estimate", "--cgroup", "/sparse")["estimate"]
    expect_exact(estimate)
    assert [threshold["pages"] for threshold in estimate["total"]["thresholds"] if threshold["in_force"]] == [409]
    stop_sparse(host)


def test_watching_knows_the_one_counter_it_has(host: Vm) -> None:
    watch = ask(host, "--watch", "1")["watch"]
    assert "thp_underused_split_page" in watch["change"]
    assert "thp_underused_scan_page" not in watch["change"]
    assert watch["meaning"]
