"""How runs are told apart: by their process, whatever the clock says, and only where that process is visible."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process

NOBODY = 65534
ON_ITS_OWN = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
TELL = f"""
import sys
sys.path[:0] = {sys.path!r}
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process
print(process.controller())
"""


def proc(place: Path, booted: int) -> Path:
    """Make a /proc with this process, on a machine that booted then by its clock."""
    own = Path("/proc/self/stat").read_text()
    for name, content in {
        f"{os.getpid()}/stat": own,
        "self/stat": own,
        "stat": f"cpu 1\nbtime {booted}\n",
        "sys/kernel/random/boot_id": Path("/proc/sys/kernel/random/boot_id").read_text(),
    }.items():
        path = place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return place


def test_a_run_keeps_its_name_when_the_clock_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = process.name(os.getpid())
    assert real is not None and real.endswith(f"-{os.getpid()}")
    for booted in (1_700_000_000, 1_700_000_005):
        monkeypatch.setattr(process, "PROC", proc(tmp_path, booted))
        assert process.name(os.getpid()) == real
        assert not process.gone(real, process.controller())


def test_a_number_that_was_given_to_another_process_is_another_run() -> None:
    boot, ticks, number = str(process.name(os.getpid())).split("-")
    assert not process.gone(f"{boot}-{ticks}-{number}", process.controller())
    assert process.gone(f"{boot}-{int(ticks) - 1}-{number}", process.controller()), "it was started at another time"
    assert process.gone(f"00000000-{ticks}-{number}", process.controller()), "it was started in another boot"


def test_a_container_on_this_machine_is_another_controller() -> None:
    if subprocess.run([*ON_ITS_OWN, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this user may not make a namespace of processes")
    words = [*ON_ITS_OWN, sys.executable, "-c", TELL]
    output = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    name, _, which = process.controller().rpartition("-")
    assert output.rpartition("-")[0] == name
    assert output.rpartition("-")[2] != which


def send_gone(pipe: multiprocessing.connection.Connection) -> None:
    if os.geteuid() == 0:
        os.setuid(NOBODY)
    there, none = "boot-1-1", f"boot-1-{(1 << 22) + 1}"
    pipe.send([process.gone(run, process.controller()) for run in (there, none)])


def test_a_process_of_another_user_that_cannot_be_seen_is_not_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with /proc mounted with `hidepid`: that of number 1 is there."""
    ours, theirs = multiprocessing.Pipe()
    # Unlike pytest's own directories, other users can read this one.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        monkeypatch.setattr(process, "PROC", proc(Path(place), 0))
        child = multiprocessing.get_context("fork").Process(target=send_gone, args=(theirs,))
        child.start()
        child.join()
    assert ours.poll(), "it sent nothing"
    assert ours.recv() == [False, True]
