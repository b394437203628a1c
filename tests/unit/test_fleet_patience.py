"""How long a run waits for a host that boots: as long as configured, or several times as long as its own boot took."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kernel_thp.fleet.plugins.filter import fleet
from ansible_collections.kernel_thp.fleet.plugins.module_utils import snapshot, trial

from tests.unit.plays import play
from tests.unit.simulated import BEFORE, Host

# Fifteen minutes of firmware, half a minute of everything else.
SLOW = {"FirmwareTimestampMonotonic": 900_000_000, "FinishTimestampMonotonic": 30_000_000}


def systemctl(folder: Path, monkeypatch: pytest.MonkeyPatch, properties: Mapping[str, int]) -> None:
    """Have systemd say this about its boot: the one of this machine says nothing in a container."""
    path = folder / "systemctl"
    path.write_text("#!/bin/sh\n" + "".join(f"echo {name}={value}\n" for name, value in properties.items()))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.mark.parametrize(
    ("properties", "seconds"),
    [
        (SLOW, 930.0),
        ({**SLOW, "FirmwareTimestampMonotonic": 0}, 30.0),
        # The boot goes on, so nobody knows how long it takes.
        ({**SLOW, "FinishTimestampMonotonic": 0}, 0.0),
        ({}, 0.0),
    ],
)
def test_a_boot_takes_from_power_on_to_its_last_service(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, properties: Mapping[str, int], seconds: float
) -> None:
    systemctl(tmp_path, monkeypatch, properties)
    assert snapshot.boot_seconds() == seconds


def booted(seconds: float) -> dict[str, Any]:
    return {"before": {"boot_seconds": seconds}}


@pytest.mark.parametrize(
    ("records", "patience"),
    [
        ((), 600),
        ((None, {}, {"before": {}}), 600),
        ((booted(0.0),), 600),
        ((booted(200.0),), 600),
        ((booted(200.1),), 601),
        ((None, booted(930.0), {}), 2790),
    ],
)
def test_patience_is_what_is_configured_or_three_boots_if_these_take_longer(
    records: tuple[dict[str, Any] | None, ...], patience: int
) -> None:
    assert fleet.patience(600, *records) == patience


@pytest.mark.full
def test_a_host_with_slow_firmware_gets_its_time_in_each_step(ansible: Mapping[str, str], tmp_path: Path) -> None:
    """The trial's timers as well as the controller."""
    host = Host(tmp_path / "h1")
    host.rolled_out("installed", before={**BEFORE, **booted(930.0)["before"]})
    played = play(
        ansible, tmp_path, {"h1": host.variables()}, "rollout", "-e", json.dumps({"thp_kernel_reboot_timeout": 5})
    )
    assert played.results() == {"h1": "done"}
    # Before ansible-core 2.19, a template gives a string, and the real module makes a number of it.
    given = {call["state"]: int(call["timeout"]) for call in host.calls("boot") if "timeout" in call}
    assert (given["held"], given["once"]) == (2790, 2790)


def test_the_timers_of_a_trial_count_from_the_start_of_the_kernel(tmp_path: Path) -> None:
    """So the firmware cannot use up their time."""
    trial.prepare(tmp_path, "6.1", 2790)
    trial.arm(tmp_path, "6.1", "b0", 2790, trial.sysctls(30, lockups=True))
    timers = [(tmp_path / trial.UNITS / name).read_text() for name in (trial.TIMER, trial.INITRD_TIMER)]
    assert [text.count("OnBootSec=2790s") for text in timers] == [1, 1]
