"""Waiting for selftests and the soak: by the clock, however long a poll takes, and only as long as the boot lasts."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import job
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, lost

LIMITS = job.Limits(timeout=1000, silence=180)
UNDER_WAY: Result = {"finished": False}
DONE: Result = {"finished": True, "figures": {}}


class Host:
    """Answers one after the other, the last one for ever; each costs some seconds on a clock of its own."""

    def __init__(self, *answers: tuple[float, Result]) -> None:
        self.answers: Sequence[tuple[float, Result]] = answers
        self.now = 0.0
        self.polls = 0

    def poll(self) -> Result:
        cost, answer = self.answers[min(self.polls, len(self.answers) - 1)]
        self.polls += 1
        self.now += cost
        return answer

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self) -> Result:
        return job.wait(self.poll, LIMITS, clock=lambda: self.now, sleep=self.sleep)


def test_what_a_job_returned_is_the_result() -> None:
    host = Host((1, UNDER_WAY), (1, DONE))
    assert host.wait() == DONE
    assert host.polls == 2


@pytest.mark.parametrize("cost", [0, 10, 75])
def test_a_host_is_lost_after_the_same_time_whatever_a_try_costs(cost: float) -> None:
    host = Host((1, UNDER_WAY), (cost, lost("timed out")))
    found = host.wait()
    assert found["lost_contact"]
    assert "lost contact with the host: timed out" in found["msg"]
    assert LIMITS.silence <= host.now - 1 <= LIMITS.silence + cost + job.POLL


def test_a_host_that_answers_again_in_time_is_not_lost() -> None:
    silent = (50, lost("timed out"))
    host = Host(silent, silent, (1, UNDER_WAY), silent, silent, (1, DONE))
    assert host.wait() == DONE


def test_a_job_that_does_not_end_fails_in_time() -> None:
    host = Host((1, UNDER_WAY))
    found = host.wait()
    assert found["failed"]
    assert "did not end within 1000 s" in found["msg"]
    assert "lost_contact" not in found
    assert host.now <= LIMITS.timeout + 1 + job.POLL


# The module, on this machine: the soak only reads

SOAK = {"seconds": 1, "pressure": -1, "oom_kills": -1, "fallback": -1}
# Whatever the kernel of this machine complained about.
LOG = "#!/bin/sh\necho Linux version 6.1\n"
JOB: dict[str, Any] = {"jid": "{{ soaking.ansible_job_id }}", "boot_id": "{{ soaking.boot_id }}", "timeout": 60}
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
KEEP = {"ansible.builtin.copy": {"dest": "{{ result }}", "content": "{{ waited | to_json }}", "mode": "0600"}}


def play(ansible: Mapping[str, str], folder: Path, *tasks: Mapping[str, Any]) -> Result:
    """Have Ansible run tasks on this machine, the last of which waits for a job; return what that did."""
    playbook, result, journal = folder / "play.yml", folder / "result.json", folder / "bin" / "journalctl"
    journal.parent.mkdir()
    journal.write_text(LOG)
    journal.chmod(0o755)
    own = {
        "ansible_async_dir": str(folder / "jobs"),
        "ansible_remote_tmp": str(folder / "tmp"),
        "ansible_python_interpreter": sys.executable,
    }
    about = {"hosts": "h1", "connection": "local", "gather_facts": False, "vars": {**own, "result": str(result)}}
    playbook.write_text(yaml.safe_dump([{**about, "tasks": [*tasks, KEEP]}]))
    words = ["ansible-playbook", "-i", "h1,", str(playbook)]
    found = {**ansible, "PATH": f"{journal.parent}:{ansible['PATH']}"}
    done = subprocess.run(words, env=found, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout
    return dict(json.loads(result.read_text()))


def wait(**changes: object) -> dict[str, Any]:
    return {"kernel_thp.fleet.job": {**JOB, **changes}, "register": "waited", "ignore_errors": True}


def soak(ansible: Mapping[str, str], folder: Path, seconds: int, boot_id: str) -> Result:
    start = {"kernel_thp.fleet.soak": {**SOAK, "seconds": seconds}, "async": 60, "poll": 0, "register": "soaking"}
    return play(ansible, folder, start, wait(boot_id=boot_id))


def test_a_job_is_waited_for_and_leaves_nothing(ansible: Mapping[str, str], tmp_path: Path) -> None:
    found = soak(ansible, tmp_path, 1, JOB["boot_id"])
    assert not found["failed"]
    assert found["figures"]["seconds"] >= 1
    assert list((tmp_path / "jobs").iterdir()) == []


def test_a_job_of_an_earlier_boot_is_not_waited_for(ansible: Mapping[str, str], tmp_path: Path) -> None:
    # Longer than a busy machine takes until it looks: a job that ends writes its file again.
    found = soak(ansible, tmp_path, 45, "of another boot")
    assert found["failed"]
    assert found["msg"] == "the host has rebooted meanwhile"
    assert list((tmp_path / "jobs").iterdir()) == []


@pytest.mark.full
@pytest.mark.parametrize("with_wrapper", [True, False])
def test_a_job_that_was_killed_has_failed_at_once(
    ansible: Mapping[str, str], tmp_path: Path, with_wrapper: bool
) -> None:
    """If Ansible's wrapper is killed with it, a file that says `started` is all that is left."""
    start = {"kernel_thp.fleet.soak": {**SOAK, "seconds": 40}, "async": 100, "poll": 0, "register": "soaking"}
    its_own = f"python[^ ]* {tmp_path}/tmp/[^ ]*AnsiballZ_soak"
    pattern = f"{tmp_path}/tmp/.*AnsiballZ_soak" if with_wrapper else its_own
    kill = {"ansible.builtin.command": {"argv": ["pkill", "-KILL", "-f", pattern]}}
    found = play(ansible, tmp_path, start, kill, wait(timeout=100))
    assert found["failed"]
    assert found["msg"].startswith("the job ended without a result: it was killed, or ")
    assert list((tmp_path / "jobs").iterdir()) == []


@pytest.mark.full
def test_a_job_whose_file_is_not_there_yet_is_waited_for(ansible: Mapping[str, str], tmp_path: Path) -> None:
    """On a busy host its wrapper may not have written it. Here it never does, and the job is gone when it ends."""
    seconds = 20
    wrapper = {"ansible.builtin.shell": f"(exec -a j123456789 sleep {seconds}) > /dev/null 2>&1 &"}
    wrapper["args"] = {"executable": "/bin/bash"}
    began = time.monotonic()
    found = play(ansible, tmp_path, wrapper, wait(jid="j123456789.1", boot_id=BOOT_ID.read_text().strip()))
    assert found["msg"] == "could not find job"
    assert time.monotonic() - began >= seconds


@pytest.mark.parametrize(
    ("boot_id", "why"),
    [("of another boot", "the host has rebooted meanwhile"), (BOOT_ID.read_text().strip(), "could not find job")],
)
def test_a_job_whose_file_is_gone_has_failed_by_a_reboot_if_there_was_one(
    ansible: Mapping[str, str], tmp_path: Path, boot_id: str, why: str
) -> None:
    found = play(ansible, tmp_path, wait(jid="j1.2", boot_id=boot_id))
    assert found["failed"]
    assert found["msg"] == why


def test_a_host_that_answers_and_does_nothing_is_lost_after_its_silence(
    ansible: Mapping[str, str], tmp_path: Path
) -> None:
    """As one whose disk is gone; a step may take an hour there."""
    stuck = tmp_path / "stuck"
    stuck.write_text("#!/bin/sh\nexec sleep 100\n")
    stuck.chmod(0o755)
    task = wait(jid="j1.2", boot_id=BOOT_ID.read_text().strip(), timeout=600, silence=2)
    found = play(ansible, tmp_path, {**task, "vars": {"ansible_python_interpreter": str(stuck)}})
    assert found["lost_contact"]
    assert found["msg"].startswith("the host was silent for ")
    assert found["msg"].endswith("it has not answered within 2 s")
