"""The workers of a run whose ansible-playbook was killed, which Ansible lets finish their task."""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.action.reboot import ActionModule as AnsibleReboot
from ansible_collections.kernel_thp.fleet.plugins.action.reboot import ActionModule as Reboot
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process

# A port on which nobody listens.
NOBODY = 1
# What a task takes that is left alone, and what is enough for one that notices.
TASK, SOON = 90, 30.0


def children(parent: int) -> Iterator[int]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == parent:
                yield int(path.parent.name)


def until(condition: Callable[[], object], timeout: float) -> bool:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.2)
    return True


def test_a_worker_ends_soon_after_its_ansible_was_killed(ansible: Mapping[str, str], tmp_path: Path) -> None:
    host = ["h1,", "-e", f"ansible_host=127.0.0.1 ansible_port={NOBODY}"]
    words = ["ansible", "h1", "-i", *host, "-vvv", "-m", "kernel_thp.fleet.reach", "-a", f"timeout={TASK}"]
    output = tmp_path / "output"
    with output.open("w") as log:
        main = subprocess.Popen(words, env=ansible, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    assert until(lambda: "SSH: EXEC" in output.read_text(), 60), output.read_text()
    (worker,) = children(main.pid)
    main.kill()
    main.wait()
    gone = until(lambda: not Path(f"/proc/{worker}").exists(), SOON)
    if not gone:
        os.kill(worker, signal.SIGKILL)
    assert gone, "it went on for a run that is dead"


def send_run(pipe: multiprocessing.connection.Connection) -> None:
    pipe.send((process.started_by(), process.this_run()))


def test_a_run_is_named_after_the_process_that_started_the_worker() -> None:
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=send_run, args=(theirs,))
    child.start()
    child.join()
    assert ours.recv() == (os.getpid(), process.name(os.getpid()))


@pytest.mark.parametrize("held", [True, False])
def test_a_host_that_another_run_holds_is_not_rebooted(monkeypatch: pytest.MonkeyPatch, held: bool) -> None:
    calls: list[dict[str, Any]] = []
    ordered: list[str] = []

    def answer(module_args: dict[str, Any], **_: object) -> dict[str, Any]:
        calls.append(module_args)
        return {"changed": False} if held else {"failed": True, "msg": "run r2 of there works on this host"}

    def order(*_: object) -> dict[str, Any]:
        ordered.append("shutdown -r")
        return {"failed": False}

    plugin = Reboot.__new__(Reboot)
    monkeypatch.setattr(plugin, "_execute_module", answer)
    monkeypatch.setattr(AnsibleReboot, "perform_reboot", order)
    found = plugin.perform_reboot({}, {})
    assert calls == [{"state": "checked", "run": process.this_run()}]
    assert found["failed"] is not held
    assert ordered == (["shutdown -r"] if held else [])
    if not held:
        assert (found["rebooted"], found["msg"]) == (False, "run r2 of there works on this host")
