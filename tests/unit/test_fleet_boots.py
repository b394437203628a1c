"""Which boot it is: a host on its way down does not answer, one that came back by itself is not taken for another."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import booting, loaders, snapshot
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.booting import Host
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Store
from ansible_collections.kernel_thp.fleet.plugins.module_utils.systemd_boot import SystemdBoot

OLD, NEW = "6.1.0-56-amd64", "6.1.187-1.x86_64+thp.cloud"

# There is no host here that shuts down, so this program prints what systemd would.
SYSTEMCTL = """\
#!/bin/sh
echo asked >> "$0.log"
[ "$(wc -l < "$0.log")" -gt {times} ] && echo running || echo stopping
"""


def reach(
    ansible: Mapping[str, str], folder: Path, times: int, timeout: int, python: str = sys.executable
) -> tuple[str, int]:
    """Reach a host that reports `stopping` that many times; return Ansible's output, and the number of tries."""
    systemctl = folder / "systemctl"
    systemctl.write_text(SYSTEMCTL.format(times=times))
    systemctl.chmod(0o755)
    host = ["h1,", "-c", "local", "-e", f"ansible_python_interpreter={python}"]
    words = ["ansible", "h1", "-i", *host, "-m", "kernel_thp.fleet.reach", "-a", f"timeout={timeout}"]
    environment = {**ansible, "PATH": f"{folder}:{ansible['PATH']}"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=120)
    return done.stdout, len((folder / "systemctl.log").read_text().splitlines())


def test_a_host_that_answers_is_sent_no_program(ansible: Mapping[str, str], tmp_path: Path) -> None:
    output, tries = reach(ansible, tmp_path, times=0, timeout=60, python="/nonexistent")
    assert "h1 | SUCCESS" in output
    assert tries == 1


def test_a_host_that_is_shutting_down_is_waited_for(ansible: Mapping[str, str], tmp_path: Path) -> None:
    output, tries = reach(ansible, tmp_path, times=1, timeout=60)
    assert "h1 | SUCCESS" in output
    assert tries == 2


def test_a_host_that_does_not_come_to_an_end_does_not_answer(ansible: Mapping[str, str], tmp_path: Path) -> None:
    """Its last answer has less time left than it takes."""
    slow = tmp_path / "python"
    slow.write_text(f'#!/bin/sh\nsleep 2\nexec {sys.executable} "$@"\n')
    slow.chmod(0o755)
    output, _ = reach(ansible, tmp_path, times=1000, timeout=10, python=str(slow))
    assert "h1 | FAILED" in output
    assert "the host does not answer: it is shutting down" in output
    assert '"lost_contact": true' in output


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host with both kernels that runs the old one in boot b2, having begun in boot b0."""
    entries = tmp_path / "loader" / "entries"
    entries.mkdir(parents=True)
    for uname in (OLD, NEW):
        (entries / f"lab-{uname}.conf").write_text(f"version {uname}\nlinux /linux\n")
    monkeypatch.setattr(loaders, "find", lambda: SystemdBoot(tmp_path, tmp_path))
    monkeypatch.setattr(snapshot, "uname", lambda: OLD)
    monkeypatch.setattr(snapshot, "boot_id", lambda: "b2")
    before = {"uname": OLD, "boot_id": "b0", "boot": {"settings": {"default": None}}, "sysctls": {}}
    store = Store(tmp_path / "record")
    store.write({"schema": records.SCHEMA, "target": {"uname": NEW}, "before": before, "armed_in": "b0"})
    return Host(store)


def phase(host: Host, name: str) -> None:
    record = host.store.read()
    assert record is not None
    host.store.write(record, phase=name)


def test_a_kernel_that_died_after_it_was_evaluated_is_not_kept(host: Host) -> None:
    phase(host, records.BOOTED)
    with pytest.raises(Problem, match=rf"the host came back with {OLD}: .* was not started, or died"):
        host.keep(NEW, 1)


def test_the_rollback_leads_to_another_boot(host: Host) -> None:
    phase(host, records.ROLLING_BACK)
    host.expect_old_kernel("b1")
    with pytest.raises(Problem, match="has not rebooted"):
        host.expect_old_kernel("b2")


def test_the_rollback_leads_to_the_old_kernel(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    phase(host, records.ROLLING_BACK)
    monkeypatch.setattr(snapshot, "uname", lambda: NEW)
    with pytest.raises(Problem, match=rf"came back with {NEW.replace('+', '.')}, not with {OLD}"):
        host.expect_old_kernel("b1")


def test_the_boot_in_which_the_kernel_was_armed_is_not_its_own(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    phase(host, records.ARMED)
    monkeypatch.setattr(snapshot, "uname", lambda: NEW)
    monkeypatch.setattr(snapshot, "boot_id", lambda: "b0")
    with pytest.raises(Problem, match="has not rebooted"):
        host.confirm(NEW, 30)


@pytest.mark.parametrize(("before", "after"), [(OLD, ["30", "1", "1", "1", "1", "0"]), (NEW, ["0"] * 6)])
def test_a_kernel_that_is_confirmed_reboots_on_panic_until_it_is_kept(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: list[str]
) -> None:
    """On a tree in place of /proc/sys; a kernel that ran before is not tried. Blocked tasks count only until then."""
    monkeypatch.setattr(snapshot, "uname", lambda: NEW)
    monkeypatch.setattr(booting, "ROOT", tmp_path)
    found = [tmp_path / "proc/sys" / name for name in snapshot.SYSCTLS]
    for path in found:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("0\n")
    phase(host, records.ARMED)
    record = host.store.read()
    assert record is not None
    host.store.write(record, before={**record["before"], "uname": before})
    host.confirm(NEW, 30)
    assert [path.read_text().strip() for path in found] == after
