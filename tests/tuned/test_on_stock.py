"""The profiles on a kernel without the shrinker: they set nothing, say so, and leave the profile beside them alone."""

from __future__ import annotations

import pytest

from lab import snapshots
from lab.host import Host
from tests.tuned.daemon import LOG, Tuned, Values

RECIPE = snapshots.STOCK
OTHER = "[vm]\ntransparent_hugepages=never\n[sysctl]\nvm.dirty_ratio=37\n"


def warning(tuned: Tuned, profile: str) -> str:
    return f"Linux {tuned.vm.run('uname -r').text} has no underused shrinker, so {profile} sets nothing"


@pytest.mark.parametrize("profile", ["thp-shrinker", pytest.param("thp-shrinker-tight", marks=pytest.mark.full)])
def test_the_other_profile_is_in_force_and_verification_fails(tuned: Tuned, initial: Values, profile: str) -> None:
    tuned.define("test-other", OTHER)
    tuned.profile("test-other", profile)
    assert tuned.active() == f"test-other {profile}"
    assert warning(tuned, profile) in tuned.vm.run(f"cat {LOG}").text
    assert tuned.values() == {**initial, "enabled": "never"}
    assert tuned.vm.run("sysctl -n vm.dirty_ratio").text == "37"
    for option in ("", "--ignore-missing"):
        tuned.vm.run(f": > {LOG}")
        assert tuned.adm("verify", option).code == 1
        log = tuned.vm.run(f"cat {LOG}").text
        assert warning(tuned, profile) in log
        assert "verify: passed: 'vm.dirty_ratio' = '37'" in log
    tuned.adm("off")
    assert tuned.settle(initial) == initial


@pytest.mark.full
def test_by_itself_it_sets_nothing(tuned: Tuned, initial: Values) -> None:
    tuned.profile("thp-shrinker")
    assert tuned.values() == initial
    assert not tuned.verify()[0]


@pytest.mark.full
def test_when_the_daemon_starts_the_other_profile_is_applied(tuned: Tuned, initial: Values) -> None:
    """This is the case after a boot that fell back to this kernel."""
    tuned.define("test-other", OTHER)
    chosen = "test-other thp-shrinker"
    tuned.vm.run(f"systemctl stop tuned && echo {chosen} > /etc/tuned/active_profile && systemctl start tuned")
    assert tuned.active() == chosen
    assert warning(tuned, "thp-shrinker") in tuned.vm.run(f"cat {LOG}").text
    assert tuned.values() == {**initial, "enabled": "never"}
    assert tuned.vm.run("sysctl -n vm.dirty_ratio").text == "37"


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
