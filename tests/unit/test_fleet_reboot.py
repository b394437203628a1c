"""Reboots: the task that reboots a host confirms its kernel as soon as it answers, without waiting for other hosts.

What Ansible's own reboot does is left out here: it needs a host that reboots.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action.reboot import ActionModule as AnsibleReboot
from ansible_collections.kernel_thp.fleet.plugins.action import reboot
from ansible_collections.kernel_thp.fleet.plugins.action.reboot import ActionModule as Reboot
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import breaker, contact, process, run_dir
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal

from scripts import collection

UNAME = "6.1.187-1.x86_64+thp.cloud"
CAME_BACK: dict[str, Any] = {"changed": True, "elapsed": 30, "rebooted": True}
CONFIRMED: dict[str, Any] = {"changed": True, "reboot": False, "boot_id": "b2"}
REBOOT, BOOT = "kernel_thp.fleet.reboot", "kernel_thp.fleet.boot"
ROLES = collection.SOURCE / "roles"


class Rebooted:
    """A reboot by the plugin, of a host that gives these answers one after the other and records the calls."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, came_back: dict[str, Any], *answers: dict[str, Any] | None
    ) -> None:
        self.given: dict[str, Any] = {}
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.answers = list(answers)
        self.plugin = Reboot.__new__(Reboot)
        shell = SimpleNamespace(tmpdir="/tmp/of-the-boot-before")
        self.plugin._connection = SimpleNamespace(_shell=shell)
        self.plugin._task = SimpleNamespace(check_mode=False, timeout=0, args={}, action=REBOOT)
        self.plugin._templar = SimpleNamespace(template=lambda value: value)

        def run(plugin: Reboot, *_: object) -> dict[str, Any]:
            self.given = plugin._task.args
            return came_back

        monkeypatch.setattr(contact, "keep_alive", lambda connection: None)
        monkeypatch.setattr(run_dir, "settled", lambda: None)
        monkeypatch.setattr(AnsibleReboot, "run", run)
        monkeypatch.setattr(self.plugin, "_execute_module", self._answer)
        monkeypatch.setattr(self.plugin, "_remove_tmp_path", lambda path: None)
        monkeypatch.setattr(reboot, "POLL", 0)

    def _answer(self, module_name: str, module_args: dict[str, Any], task_vars: object) -> dict[str, Any]:
        assert self.plugin._connection._shell.tmpdir is None, "what was there before the reboot is not used after it"
        self.calls.append((module_name, module_args))
        found = self.answers.pop(0)
        if found is None:
            raise AnsibleConnectionFailure("no route to host")
        return found

    def run(self, **args: object) -> dict[str, Any]:
        self.plugin._task.args = {"state": "confirmed", "uname": UNAME, "reboot_timeout": 600, **args}
        return dict(self.plugin.run(None, {}))


def test_the_task_that_rebooted_a_host_confirms_it(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Rebooted(monkeypatch, CAME_BACK, CONFIRMED)
    found = host.run(msg="It's the kernel")
    assert host.given["reboot_timeout"] == 600
    assert shlex.split(host.given["reboot_command"]) == ["/sbin/shutdown", "-r", "now", "It's the kernel"]
    (calls,) = host.calls
    assert calls[0] == BOOT
    assert {"state": "confirmed", "uname": UNAME, "run": process.this_run()}.items() <= calls[1].items()
    assert found == {**CAME_BACK, **CONFIRMED}


def test_a_shutdown_that_hangs_is_forced_on_the_way_back_to_the_old_kernel(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With programs that only log, and fail: the host shuts down all the same, or else nothing is forced."""
    host = Rebooted(monkeypatch, CAME_BACK, CONFIRMED)
    host.run(state="returned", reboot_timeout=900)
    order, log, trigger = host.given["reboot_command"], tmp_path / "log", tmp_path / "sysrq-trigger"
    for name in ("systemd-run", "shutdown", "sleep", "systemctl", "sync"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >> {log}\nexit 1\n')
        (tmp_path / name).chmod(0o755)
    assert order.split(" ", 1)[0].startswith("/"), "or Ansible looks for it on the host"
    ours = order.replace("/usr/bin/", f"{tmp_path}/").replace("/sbin/", f"{tmp_path}/")
    subprocess.run(["sh", "-c", ours], check=False)
    first, second, third = log.read_text().splitlines()
    unit = "--collect --unit=kernel-thp-forced-reboot"
    assert first.startswith(f"systemd-run --quiet {unit} --property=DefaultDependencies=no /bin/sh -c sleep 450; ")
    assert second == "shutdown -r now Reboot initiated by Ansible"
    assert third == "systemctl stop kernel-thp-forced-reboot"
    log.unlink()
    script = first.partition(" -c ")[2].replace("/proc/sysrq-trigger", str(trigger))
    subprocess.run(["sh", "-c", f"{script}; wait"], env={"PATH": f"{tmp_path}:/bin"}, check=True)
    assert sorted(log.read_text().splitlines()) == ["sleep 450", "sleep 60", "sync", "systemctl reboot --force"]
    assert trigger.read_text() == "b\n"


def test_what_the_host_says_of_its_kernel_is_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Rebooted(monkeypatch, CAME_BACK, {"failed": True, "msg": "the host came back with 6.1.0"}).run()
    assert (found["failed"], found["msg"]) == (True, "the host came back with 6.1.0")
    assert "lost_contact" not in found


def test_a_network_that_comes_and_goes_while_a_host_starts_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Rebooted(monkeypatch, CAME_BACK, None, None, CONFIRMED)
    assert "failed" not in host.run()
    assert len(host.calls) == 3


def test_a_host_that_goes_away_again_and_stays_away_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Rebooted(monkeypatch, CAME_BACK, None).run(reboot_timeout=0)
    assert (found["failed"], found["lost_contact"]) == (True, True)


def test_a_host_that_does_not_come_back_is_lost_and_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    host = Rebooted(monkeypatch, {"failed": True, "rebooted": True, "msg": "Timed out waiting for it"})
    found = host.run()
    assert found["lost_contact"]
    assert found["msg"] == "the host did not come back after the reboot: Timed out waiting for it"
    assert host.calls == []


def test_a_host_that_is_gone_before_its_reboot_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = AnsibleConnectionFailure("no route to host")

    def answer(*_: object) -> str:
        raise gone

    own = AnsibleReboot.run
    host = Rebooted(monkeypatch, {})
    monkeypatch.setattr(AnsibleReboot, "run", own)
    monkeypatch.setattr(AnsibleReboot, "get_system_boot_time", answer)
    host.plugin._connection.transport = "ssh"
    host.plugin._supports_check_mode, host.plugin._task.async_val = True, 0
    # Where ansible-core 2.16 looks for check mode.
    host.plugin._play_context = host.plugin._task
    monkeypatch.setattr(AnsibleReboot.__mro__[1], "run", lambda *_: {})
    found = host.run()
    assert (found["failed"], found["lost_contact"], host.calls) == (True, True, [])
    assert "no route to host" in found["msg"]


@pytest.mark.parametrize(("state", "reboots"), [("confirmed", False), ("returned", True)])
def test_a_host_does_not_start_a_kernel_that_has_failed_too_often_but_always_the_old_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, state: str, reboots: bool
) -> None:
    journal = Journal(tmp_path / "run")
    journal.begin("run-1", "rollout", "here", ["h1", "h2"], check=True, max_failed=0)
    journal.fell("h1", breaker.FAILED)
    host = Rebooted(monkeypatch, CAME_BACK, CONFIRMED)
    monkeypatch.setattr(run_dir, "settled", lambda: journal)
    found = host.run(state=state)
    assert found["rebooted"] == reboots
    assert found.get("msg") == (None if reboots else "not begun, because this run has failed on h1, and 0 may fail")


@pytest.mark.parametrize(
    ("role", "file", "state"), [("kernel", "main", "confirmed"), ("rollback", "roll_back", "returned")]
)
def test_no_host_waits_for_others_between_its_reboot_and_its_answer(role: str, file: str, state: str) -> None:
    tasks = yaml.safe_load((ROLES / role / "tasks" / f"{file}.yml").read_text())
    (where,) = (number for number, task in enumerate(tasks) if REBOOT in task)
    assert tasks[where][REBOOT]["state"] == state
    assert state not in [task[BOOT]["state"] for task in tasks[where + 1 :] if BOOT in task]
