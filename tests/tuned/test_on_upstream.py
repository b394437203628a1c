"""The profiles on Linux 6.12, whose shrinker uses the threshold of khugepaged."""

from __future__ import annotations

import pytest

from lab import snapshots
from tests.tuned.daemon import DEFRAG_MODE, THP, VARIABLES, Tuned, Values

RECIPE = snapshots.UPSTREAM
pytestmark = pytest.mark.full
ON = {"enabled": "always", "defrag": "madvise", "shrink_underused": "1"}


@pytest.mark.parametrize(
    ("profile", "threshold"),
    [("thp-shrinker", "409"), ("thp-shrinker-tight", "256"), ("thp-baseline", "511")],
)
def test_profile_works_with_the_files_of_this_kernel(
    tuned: Tuned, initial: Values, profile: str, threshold: str
) -> None:
    assert "underused_max_ptes_none" not in initial
    tuned.profile(profile)
    assert tuned.values() == {**ON, "khugepaged/max_ptes_none": threshold}
    assert tuned.verify()[0]
    tuned.adm("off")
    assert tuned.settle(initial) == initial


def test_a_value_for_kernels_with_the_defrag_mode_does_not_matter_here(tuned: Tuned, initial: Values) -> None:
    assert DEFRAG_MODE not in initial
    tuned.vm.write(VARIABLES, "[thp-shrinker]\ndefrag_mode=1\n")
    tuned.profile("thp-shrinker")
    assert tuned.verify()[0]


def test_verification_notices_a_size_that_overrides(tuned: Tuned) -> None:
    tuned.profile("thp-shrinker")
    size = f"{THP}/hugepages-2048kB/enabled"
    tuned.vm.run(f"echo never > {size}")
    passed, log = tuned.verify()
    tuned.vm.run(f"echo inherit > {size}")
    assert not passed
    assert f"{size} is never and overrides enabled=always" in log
    assert tuned.verify()[0]
