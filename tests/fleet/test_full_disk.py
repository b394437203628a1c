"""The controller's disk fills up: while the first of two hosts gets its kernel, and before a host has been changed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet import expect
from tests.fleet.hosts import Fleet
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator

NAMES = ("alpha", "bravo")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk for reports, all of whose blocks a file can take."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path) -> None:
    with pytest.raises(OSError, match="No space"), (disk / "ballast").open("wb", buffering=0) as ballast:
        while True:
            ballast.write(bytes(4096))


def test_a_host_in_the_middle_is_finished_and_the_next_one_not_begun(
    fleet: Fleet, operator: Operator, release: Release, disk: Path
) -> None:
    fleet.start(*NAMES)
    run = operator.start(
        "rollout", "the controller's disk is full", NAMES, variables={"thp_report_directory": str(disk / "reports")}
    )
    run.task("kernel_thp.fleet.kernel : Install the packages")
    fill(disk)
    assert run.wait() != 0
    assert "alpha cannot be noted in" in run.output()
    expect.rolled_out(fleet["alpha"], fleet["alpha"].collect(), release)
    expect.untouched(fleet["bravo"], fleet["bravo"].collect())


def test_a_host_that_has_not_been_changed_gets_no_kernel(fleet: Fleet, operator: Operator, disk: Path) -> None:
    """It is bravo, which the test before has left as it was."""
    member = fleet["bravo"]
    variables = {"thp_report_directory": str(disk / "reports")}
    run = operator.start("rollout", "the disk is full during preflight", ("bravo",), variables=variables)
    run.task("kernel_thp.fleet.preflight : Find the packages of the release")
    fill(disk)
    assert run.wait() != 0
    assert "bravo cannot be noted in" in run.output()
    assert "TASK [kernel_thp.fleet.kernel : Install the packages]" not in run.output()
    state = member.collect()
    assert (state.settings, state.boot_id) == (member.before.settings, member.before.boot_id)
    assert not state.held, "the next run would be refused"
