"""The limits of the benchmark's swap disk, found with made-up guests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from bench_results import by_name

from bench import guest, kernels, report, run, throttle
from bench.cases import CALIBRATION, Case
from bench.results import Boot, Figure
from bench.throttle import Throttle
from scripts.console import UserError

SIZE = 64 << 20
ON_ZRAM = (0.19, 0.2, 0.25)
PASSED = ("pass", "")


def limit(options: str, name: str) -> float:
    found = re.search(rf"throttling\.{name}-total=(\d+)", options)
    return float(found[1]) if found else 1e12


class Stock:
    """Boots in which the disk takes as long as its limits say, but lets a burst pass and submits for a while."""

    def __init__(self, request: int = 1 << 20, least: float = 0.1, burst: float = 0.1) -> None:
        self.request, self.least, self.burst = request, least, burst
        self.tried: list[str] = []

    def __call__(self, options: str) -> Sequence[Boot]:
        self.tried.append(options)
        slow = SIZE / limit(options, "bps") * (1 - self.burst)
        busy = SIZE / self.request / limit(options, "iops")
        disk = {"on_disk_time": Figure(max(slow, busy, self.least), "s"), "stored": Figure(SIZE, "bytes")}
        return [self.boot({"pageout_time": Figure(seconds, "s")}, disk) for seconds in ON_ZRAM]

    def boot(self, zram: dict[str, Figure], disk: dict[str, Figure]) -> Boot:
        figures = {"best.zram": zram, "best.disk": disk}
        return Boot("key", 1.0, dict.fromkeys(figures, PASSED), figures)


@pytest.mark.parametrize("request_size", [1 << 20, 16 << 10])
def test_the_disk_becomes_ten_times_as_slow_as_zram(request_size: int) -> None:
    stock = Stock(request_size)
    found = throttle.search(stock)
    assert stock.tried[0] == "" and stock.tried[-1] == found.options
    on_disk = stock(found.options)[0].figures["best.disk"]["on_disk_time"].value
    assert on_disk / ON_ZRAM[1] == pytest.approx(found.times, abs=0.01) == pytest.approx(10, rel=0.05)


def test_requests_are_in_proportion_to_the_bandwidth() -> None:
    assert throttle.throttle(125 << 20).requests == pytest.approx(3000, abs=1)
    assert throttle.throttle(1000).requests == 1


def test_a_disk_that_is_slow_by_itself_is_an_error() -> None:
    with pytest.raises(UserError, match="no limits make the swap disk 10 times as slow as zram"):
        throttle.search(Stock(least=9))


def test_a_test_that_failed_is_named() -> None:
    failed = Boot("key", 1.0, {"best.zram": ("fail", "no swap"), "best.disk": PASSED}, {})
    with pytest.raises(UserError, match=r"best\.zram on the stock kernel: fail: no swap"):
        throttle.search(lambda options: [failed])


class FakeGuest:
    """Boots as Stock does, one at a time."""

    keys = "one"

    def __init__(self, case: Case, throttle: str = "") -> None:
        assert case is CALIBRATION
        self.throttle = throttle

    def key(self, kernel: kernels.Kernel) -> str:
        return self.keys

    def boot(self, kernel: kernels.Kernel, label: str) -> Boot:
        return Stock()(self.throttle)[int(label) % len(ON_ZRAM)]


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """No guests and no kernels; what would be built is listed."""
    names: list[str] = []
    monkeypatch.setattr(throttle, "STORED", tmp_path / "throttle.json")
    monkeypatch.setattr(throttle, "Guest", FakeGuest)
    monkeypatch.setattr(kernels, "find", lambda name: kernels.Kernel(name, "6.1", True, "key", tmp_path / name))
    monkeypatch.setattr(kernels, "build", names.append)
    return names


def test_limits_are_found_once_for_a_stock_kernel(built: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert throttle.options() == ""
    found = throttle.find()
    assert throttle.find() == found == throttle.stored()
    assert throttle.options() == found.options and built == ["stock"]
    monkeypatch.setattr(FakeGuest, "keys", "another")
    assert throttle.find().key == "another" and built == ["stock", "stock"]
    throttle.find(again=True)
    assert built == ["stock"] * 3


def test_every_swap_disk_has_the_limits_and_no_other_has(built: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    throttle.STORED.write_text('{"bandwidth": 7, "requests": 3}')
    limits = Throttle(7, 3).options
    made = run.Bench()
    monkeypatch.setattr(run, "Guest", lambda case, disk, throttle: throttle)
    for case in run.CASES:
        swaps = case.disk == guest.SWAP
        assert made.guest(case) == (limits if swaps else "")
        assert (limits in report.machine_line(case)) is swaps


@pytest.mark.parametrize(("case", "needed"), [("swapin", True), ("zero_drop.whole.count", False), ("programs", False)])
def test_limits_are_found_only_for_a_swap_disk(case: str, needed: bool, built: list[str]) -> None:
    run.find_throttle(run.jobs([by_name(case)]))
    assert (throttle.stored() is not None) is needed
