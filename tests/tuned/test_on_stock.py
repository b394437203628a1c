"""The profiles on a kernel without the shrinker: refused in one clear line, and no value changes."""

from __future__ import annotations

import pytest

from lab import snapshots
from lab.host import Host
from tests.tuned.daemon import LOG, Tuned, Values

RECIPE = snapshots.STOCK


def refusal(tuned: Tuned) -> str:
    return f"Linux {tuned.vm.run('uname -r').text} has no underused shrinker"


@pytest.mark.parametrize(
    "names",
    [
        "thp-shrinker",
        pytest.param("thp-shrinker-tight", marks=pytest.mark.full),
        pytest.param("throughput-performance thp-shrinker", marks=pytest.mark.full),
    ],
)
def test_refused_in_one_line_and_the_active_profile_stays(tuned: Tuned, names: str) -> None:
    tuned.define("test-other", "[vm]\ntransparent_hugepage.defrag=never\n")
    tuned.profile("test-other")
    before = tuned.values()
    done = tuned.adm("profile", names)
    assert done.code == 1
    assert len(done.lines) == 1
    assert refusal(tuned) in done.text
    assert "boot kernel-thp-cloud, kernel-thp, or Linux 6.12 or later" in done.text
    assert tuned.settle(before) == before
    assert before["enabled"] == "madvise"
    assert tuned.active() == "test-other"


@pytest.mark.full
def test_refused_without_a_profile_before_it(tuned: Tuned, initial: Values) -> None:
    assert tuned.adm("profile", "thp-shrinker").code == 1
    assert tuned.values() == initial
    assert tuned.active() == "No current active profile."


@pytest.mark.full
def test_refused_when_the_daemon_starts(tuned: Tuned, initial: Values) -> None:
    """This is the case after a boot that fell back to this kernel."""
    tuned.vm.run("systemctl stop tuned && echo thp-shrinker > /etc/tuned/active_profile && systemctl start tuned")
    assert tuned.active() == "No current active profile."
    assert refusal(tuned) in tuned.vm.run(f"cat {LOG}").text
    assert tuned.values() == initial
    assert not tuned.verify()[0]
    # The choice stays, for the next boot of a kernel with the shrinker.
    assert tuned.vm.run("cat /etc/tuned/active_profile").text == "thp-shrinker"


def test_baseline_works_and_all_values_return(tuned: Tuned, initial: Values) -> None:
    tuned.profile("thp-baseline")
    assert tuned.values() == {"enabled": "always", "defrag": "madvise", "khugepaged/max_ptes_none": "511"}
    assert tuned.verify()[0]
    tuned.adm("off")
    assert tuned.settle(initial) == initial


@pytest.mark.full
def test_not_recommended(tuned: Tuned, host: Host) -> None:
    host.install("tuned-profiles-thp-recommend")
    assert "thp-" not in tuned.adm("recommend").text
