"""The profiles on Linux 6.12, which has the shrinker without a limit of its own."""

from __future__ import annotations

import pytest

from lab import snapshots
from tests.tuned.daemon import THP, Tuned, Values

RECIPE = snapshots.UPSTREAM
ON = {"enabled": "always", "defrag": "madvise", "shrink_underused": "1"}


@pytest.mark.parametrize(
    ("profile", "limit"), [("thp-shrinker", "409"), ("thp-shrinker-tight", "256"), ("thp-baseline", "511")]
)
def test_profile_works_with_what_is_there(tuned: Tuned, initial: Values, profile: str, limit: str) -> None:
    assert "underused_max_ptes_none" not in initial
    tuned.profile(profile)
    assert tuned.values() == {**ON, "khugepaged/max_ptes_none": limit}
    assert tuned.verify()[0]
    tuned.adm("off")
    assert tuned.settle(initial) == initial


def test_verification_notices_a_size_that_overrides(tuned: Tuned) -> None:
    tuned.profile("thp-shrinker")
    size = f"{THP}/hugepages-2048kB/enabled"
    tuned.vm.run(f"echo never > {size}")
    passed, log = tuned.verify()
    tuned.vm.run(f"echo inherit > {size}")
    assert not passed
    assert f"{size} is never and overrides enabled=always" in log
    assert tuned.verify()[0]
