"""Whether the firmware of a lab host hangs, by its console."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lab.vm import FIRMWARE_TIMEOUT, RESTART, Vm

BOOTED = f"[    1.0] Linux\n[   76.8] {RESTART}\n"


@pytest.mark.parametrize(
    ("before", "since", "silent", "hangs"),
    [
        ("", BOOTED, FIRMWARE_TIMEOUT + 1, True),
        ("", BOOTED, FIRMWARE_TIMEOUT / 2, False),
        ("", f"{BOOTED}BdsDxe: loading Boot0001\n", FIRMWARE_TIMEOUT + 1, False),
        # Its power was cut after the restart, and it has just been turned on again.
        (BOOTED, "", FIRMWARE_TIMEOUT + 1, False),
    ],
)
def test_a_firmware_hangs_if_nothing_follows_a_restart(
    tmp_path: Path, before: str, since: str, silent: float, hangs: bool
) -> None:
    vm = Vm(tmp_path / "disk", tmp_path)
    assert not vm._firmware_hangs(), "it has no console yet"
    vm._printed = len(before)
    vm.console.write_text(before + since)
    at = time.time() - silent
    os.utime(vm.console, (at, at))
    assert vm._firmware_hangs() is hangs
    vm._powered = time.time()
    assert not vm._firmware_hangs(), "it has only just got power"
