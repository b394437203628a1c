"""Find how fast the swap disk has to be for the stock kernel to take TIMES as long to swap to it as to zram.

An emulated processor is slow, and the disk is a file in this machine's page cache: without limits it would cost
nothing, and with the limits of a real disk little. The limits are found on this machine, with the stock kernel that
swaps huge pages whole, and all kernels get the same. `make bench` finds them when they are missing,
`python3 -m bench.throttle` finds them again.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

from bench import cases, kernels
from bench.guest import Guest
from bench.kernels import OUT, STOCK
from bench.results import Boot
from scripts import files
from scripts.console import UserError, main, say, step

# In the posting of 2021, the stock kernel needs 70.5 s for 10 GB on a disk, and 7.2 s on zram.
TIMES = 10.0
# One request for each 43 KB: a usual disk of a cloud has 3,000 requests and 125 MiB per second.
REQUEST_BYTES = 125 * 1024 * 1024 // 3000
BOOTS, TRIES, TOLERANCE = 5, 4, 0.05
STORED = OUT / "throttle.json"
# Boots a guest a few times with these options of its disk.
Boots = Callable[[str], Sequence[Boot]]


@dataclass(frozen=True)
class Throttle:
    """The limits per second; reads and writes share them. `times` is what they gave, `key` says for which guest."""

    bandwidth: int
    requests: int
    times: float = 0
    key: str = ""

    @property
    def options(self) -> str:
        """Return the options of qemu's -drive."""
        return f"throttling.bps-total={self.bandwidth},throttling.iops-total={self.requests}"


def throttle(bandwidth: float) -> Throttle:
    return Throttle(round(bandwidth), max(1, round(bandwidth / REQUEST_BYTES)))


def values(boots: Sequence[Boot], test: str, figure: str) -> list[float]:
    for boot in boots:
        if test not in boot.figures:
            verdict, reason = boot.verdicts.get(test, ("lost", "no result"))
            raise UserError(f"{test} on the stock kernel: {verdict}: {reason}", f"read the logs in {OUT / 'boot'}")
    return [boot.figures[test][figure].value for boot in boots]


def search(boots_with: Boots) -> Throttle:
    """Return the limits with which the disk takes TIMES as long as zram, which they do not change."""
    boots = boots_with("")
    on_zram = values(boots, cases.BEST_ZRAM, "pageout_time")
    size = statistics.median(values(boots, cases.BEST_DISK, "stored"))
    found = throttle(size / (TIMES * statistics.median(on_zram)))
    for _ in range(TRIES):
        boots = boots_with(found.options)
        on_zram += values(boots, cases.BEST_ZRAM, "pageout_time")
        on_disk = statistics.median(values(boots, cases.BEST_DISK, "on_disk_time"))
        times = on_disk / statistics.median(on_zram)
        say(f"  {found.bandwidth} bytes and {found.requests} requests per second: {times:.1f} times zram")
        if abs(times / TIMES - 1) <= TOLERANCE:
            return Throttle(found.bandwidth, found.requests, round(times, 2))
        found = throttle(found.bandwidth * times / TIMES)
    raise UserError(
        f"no limits make the swap disk {TIMES:g} times as slow as zram, the last gave {times:.1f}",
        "end what else is running on this machine, then try again",
    )


def stored() -> Throttle | None:
    return Throttle(**json.loads(STORED.read_text())) if STORED.exists() else None


def options() -> str:
    """Return the options of the swap disk, none if they have not been found yet."""
    found = stored()
    return found.options if found else ""


def find(again: bool = False) -> Throttle:
    """Return the limits for the present stock kernel and program, and find them first if they are missing."""
    case, kernel = cases.CALIBRATION, kernels.find(STOCK)
    key = Guest(case).key(kernel)
    known = stored()
    if known and known.key == key and not again:
        return known
    kernels.build(STOCK)
    with step("find the limits of the swap disk"):
        found = search(lambda limits: [Guest(case, throttle=limits).boot(kernel, str(boot)) for boot in range(BOOTS)])
    found = Throttle(found.bandwidth, found.requests, found.times, key)
    files.replace(STORED, json.dumps(asdict(found), indent=1) + "\n")
    return found


def command() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    found = find(again=True)
    say(f"throttle: {found.options}, which takes {found.times} times as long as zram; stored in {STORED}")


if __name__ == "__main__":
    main(command)
