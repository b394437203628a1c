"""The same package with the newest tuned that Debian has, whose profiles are in another directory.

These are tests of the other files. The host's tuned stays replaced, so this file is the last one on its host.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

from lab import debs, snapshots
from lab.host import Host
from tests.tuned.test_on_kernel_thp import (
    test_a_mistake_in_the_variables_is_refused_and_the_active_profile_stays,
    test_all_values_return,
    test_composes_with_a_profile_that_has_its_own_variables_file,
    test_composes_with_the_general_profile,
    test_last_profile_decides,
    test_profile_is_in_force_and_verified,
    test_script_of_another_profile_runs_beside_ours,
)
from tests.tuned.test_verification import (
    test_verification_notices_every_value_that_changed,
    test_verification_notices_variables_that_were_not_applied,
    test_what_tuned_alone_passes_falsely_fails_with_ours,
)

__all__ = [
    "test_a_mistake_in_the_variables_is_refused_and_the_active_profile_stays",
    "test_all_values_return",
    "test_composes_with_a_profile_that_has_its_own_variables_file",
    "test_composes_with_the_general_profile",
    "test_last_profile_decides",
    "test_profile_is_in_force_and_verified",
    "test_script_of_another_profile_runs_beside_ours",
    "test_verification_notices_every_value_that_changed",
    "test_verification_notices_variables_that_were_not_applied",
    "test_what_tuned_alone_passes_falsely_fails_with_ours",
]

RECIPE = snapshots.KERNEL_THP
# A new version there must not stop an unrelated merge.
pytestmark = pytest.mark.full
# The first version that looks for profiles in a directory of their own.
MOVED = (2, 23)


@pytest.fixture(scope="module", autouse=True)
def newest(host: Host, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Replace tuned on the host."""
    archive: Path = tmp_path_factory.mktemp("tuned") / "deb.tar"
    with tarfile.open(archive, "w") as content:
        content.add(debs.package("tuned", "sid"), "tuned.deb")
    host.vm.unpack(archive, "/var/tmp/newest")
    install = "dpkg --force-confnew -i /var/tmp/newest/tuned.deb"
    host.vm.run(f"systemctl stop tuned && {install} && systemctl daemon-reload && systemctl start tuned", timeout=600)
    version = host.vm.run("tuned --version").text.split()[-1]
    assert tuple(map(int, version.split(".")[:2])) >= MOVED, f"tuned {version} is not a newer one"


@pytest.mark.full
def test_all_profiles_are_listed_once(host: Host) -> None:
    lines = host.vm.run("tuned-adm list profiles").text.splitlines()
    listed = [line.split()[1] for line in lines if line.startswith("- ")]
    assert [name for name in listed if name.startswith("thp-")] == sorted(
        ["thp-baseline", "thp-shrinker", "thp-shrinker-tight", "thp-settings", "thp-khugepaged", "thp-defrag-mode"]
    )
