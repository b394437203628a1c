"""The lab on real VMs: faults are noticed at once, reported in one line, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab import image, repo
from lab.vm import RUN, DeadHost, NoAnswer, Vm
from scripts.console import ROOT, UserError

pytestmark = [pytest.mark.full, pytest.mark.xdist_group("test_lab")]

# Starts a host, prints that, and waits for an answer that cannot come so soon.
HOLDER = """
import sys
from pathlib import Path
from scripts.console import main
from lab import image
from lab.vm import Vm

def command():
    with Vm(image.build(), Path(sys.argv[1]), sys.argv[2]) as vm:
        print("started", flush=True)
        vm.wait_ssh()

main(command)
"""


def qemu_processes(name: str) -> list[int]:
    """Return the qemu processes of a VM of this name."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[0].startswith(b"qemu-system") and name.encode() in words:
            found.append(int(path.parent.name))
    return found


def wait_for_qemu(name: str) -> list[int]:
    """Wait for qemu: the command that is started becomes qemu only a moment later."""
    deadline = time.monotonic() + 10
    while not (found := qemu_processes(name)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_qemu_outlives_its_command(number: signal.Signals) -> None:
    name = f"orphan-{number.name}-{os.getpid()}"
    command = [sys.executable, "-c", HOLDER, str(RUN / name), name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        while holder.stdout.readline().strip() != "started":
            assert holder.poll() is None
        wait_for_qemu(name)
        holder.send_signal(number)
    deadline = time.monotonic() + 10
    while qemu_processes(name) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert qemu_processes(name) == []


def test_no_answer_in_time_is_one_clear_line() -> None:
    with Vm(image.build(), RUN / "slow", "slow") as vm, pytest.raises(NoAnswer) as caught:
        vm.wait_ssh(timeout=2)
    assert "slow: no ssh within 2 s" in str(caught.value)
    assert "console.log" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_dead_qemu_is_noticed_at_once() -> None:
    name = f"killed-{os.getpid()}"
    with Vm(image.build(), RUN / "killed", name) as vm:
        for process in wait_for_qemu(name):
            os.kill(process, signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(DeadHost, match="qemu is gone"):
            vm.wait_ssh()
        assert time.monotonic() - began < 5


def test_two_commands_cannot_share_a_host() -> None:
    with Vm(image.build(), RUN / "shared", "shared"), pytest.raises(UserError, match="another command runs a host"):
        Vm(image.build(), RUN / "shared", "shared").start()


def test_a_repository_without_signature_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no signed repository"), repo.served(tmp_path):
        pass


def test_a_command_that_hangs_ends_at_its_limit(host: Vm) -> None:
    with pytest.raises(NoAnswer, match="`sleep 600` did not end within 3 s"):
        host.run("sleep 600", timeout=3)


def test_a_command_that_fails_is_named_with_its_output(host: Vm) -> None:
    with pytest.raises(UserError, match="`echo because; exit 7` ended with 7: because"):
        host.run("echo because; exit 7")


def test_a_crash_ends_the_command_that_runs(host: Vm) -> None:
    """Last in this file: the host is gone afterwards."""
    began = time.monotonic()
    with pytest.raises(DeadHost, match="Kernel panic"):
        host.run("sleep 1; echo c > /proc/sysrq-trigger; sleep 600")
    assert time.monotonic() - began < 30
