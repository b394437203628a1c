"""What an operator's own role does to hosts, and when: real runs of Ansible on this machine."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from scripts import collection
from tests.unit import plays
from tests.unit.plays import GONE, there

HOSTS = ("h1", "h2")
# What is written down, by host and in this order.
SAYS = "ansible.builtin.shell: echo {what} >> {folder}/{{{{ inventory_hostname }}}}"
TASKS = """\
- name: Tell the load balancer
  {drain}
  changed_when: true
  notify: Have it take that in
"""
HANDLERS = """\
- name: Have it take that in
  {handler}
  failed_when: inventory_hostname in failing
"""
PLAY = """\
- name: Drain, and reboot
  hosts: all
  gather_facts: false
  tasks:
    - name: Take the host to another kernel
      block:
        - name: Take the host out of service
          ansible.builtin.include_role:
            name: kernel_thp.fleet.preflight
            tasks_from: hook
          vars:
            __preflight_hook: drain
            __preflight_hook_command: []
            __preflight_hook_role: "{{ role }}"
        - name: Reboot
          {reboot}
      rescue:
        - name: Go back
          {back}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An operator's folder: a playbook, and a role that notifies a handler."""
    for part in ("tasks", "handlers"):
        (tmp_path / "roles/balancer" / part).mkdir(parents=True)
    message = {what: SAYS.format(what=what, folder=tmp_path) for what in ("drain", "handler", "reboot", "back")}
    (tmp_path / "roles/balancer/tasks/main.yml").write_text(TASKS.format(**message))
    (tmp_path / "roles/balancer/handlers/main.yml").write_text(HANDLERS.format(**message))
    (tmp_path / "play.yml").write_text(PLAY.replace("{reboot}", message["reboot"]).replace("{back}", message["back"]))
    return tmp_path


def play(ansible: Mapping[str, str], folder: Path, **variables: object) -> subprocess.CompletedProcess[str]:
    given = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable, "failing": [], **variables}
    words = ["ansible-playbook", "-i", ",".join(HOSTS), "play.yml", "-e", json.dumps(given)]
    return subprocess.run(words, env=ansible, cwd=folder, capture_output=True, text=True, check=False, timeout=120)


def test_handlers_of_a_drain_role_run_before_what_comes_after_the_drain(
    ansible: Mapping[str, str], folder: Path
) -> None:
    done = play(ansible, folder, role="balancer", failing=["h1"])
    assert done.returncode == 0, done.stdout
    # One that fails is a drain that failed.
    assert (folder / "h1").read_text().split() == ["drain", "handler", "back"]
    assert (folder / "h2").read_text().split() == ["drain", "handler", "reboot"]


BROKEN = {
    "missing": None,
    "unclosed": "- name: Tell the load balancer\n  ansible.builtin.command: [drain\n",
    "unknown": "- name: Tell the load balancer\n  no.such.module: {}\n",
}


def break_roles(folder: Path) -> None:
    for name, tasks in BROKEN.items():
        if tasks is not None:
            (folder / f"roles/{name}/tasks").mkdir(parents=True)
            (folder / f"roles/{name}/tasks/main.yml").write_text(tasks)


@pytest.mark.parametrize("name", ["missing", "unclosed"])
def test_a_role_that_cannot_be_used_is_a_drain_that_failed(ansible: Mapping[str, str], folder: Path, name: str) -> None:
    break_roles(folder)
    done = play(ansible, folder, role=name)
    assert done.returncode == 0, done.stdout
    assert [(folder / host).read_text().split() for host in HOSTS] == [["back"], ["back"]]


COLLECT = """\
- name: See what can be used
  hosts: all
  gather_facts: false
  tasks:
    - name: See what can be used
      block:
        - name: See that the operator's roles can be used
          ansible.builtin.include_role:
            name: kernel_thp.fleet.preflight
            tasks_from: hooks
      rescue:
        - name: Tell what is wrong
          ansible.builtin.debug:
            msg: "[{{ ansible_failed_result | default({}) | kernel_thp.fleet.why }}]"
"""


def test_a_role_that_cannot_be_used_is_found_before_it_is_needed(ansible: Mapping[str, str], folder: Path) -> None:
    """Included as it is, two of these would end the run there and then, whatever has been done to its hosts."""
    break_roles(folder)
    (folder / "play.yml").write_text(COLLECT)
    undrains = {"sound": "", **{name: name for name in BROKEN}}
    variables = {
        name: {"thp_preflight_drain_role": "balancer", "thp_preflight_undrain_role": undrain}
        for name, undrain in undrains.items()
    }
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (folder / "inventory.json").write_text(json.dumps({"all": {"hosts": variables, "vars": local}}))
    words = ["ansible-playbook", "-i", "inventory.json", "play.yml"]
    done = subprocess.run(words, env=ansible, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    messages = dict(re.findall(r'ok: \[(\w+)\] => {\s+"msg": "\[(.*)\]"', done.stdout))
    assert set(messages) == set(BROKEN)
    for name, message in messages.items():
        assert message.startswith(f"the role {name} cannot be used: "), message


# Hosts that die while a command of the operator's runs there

DIES = """\
- name: Drain
  hosts: all
  gather_facts: false
  tasks:
    - name: Take the host out of service
      block:
        - name: Run the hook
          ansible.builtin.include_role:
            name: kernel_thp.fleet.preflight
            tasks_from: hook
          vars:
            __preflight_hook: drain
            __preflight_hook_command: ["true"]
            __preflight_hook_role: ""
      rescue:
        - name: Tell what became of it
          ansible.builtin.debug:
            msg: "[{{ ansible_failed_result | kernel_thp.fleet.outcome }}]"
"""


def test_a_host_that_is_gone_is_lost_and_one_whose_balancer_is_gone_is_there(
    ansible: Mapping[str, str], tmp_path: Path
) -> None:
    (tmp_path / "play.yml").write_text(DIES)
    itself = {**GONE, "thp_preflight_hook_delegate_to": "{{ inventory_hostname }}"}
    hosts = {"h1": GONE, "h2": itself, "h3": {**there(tmp_path), "thp_preflight_hook_delegate_to": "h1"}}
    played = plays.play(ansible, tmp_path, hosts, tmp_path / "play.yml")
    assert played.code == 0, played.output
    messages = dict(re.findall(r'ok: \[(\w+)\] => {\s+"msg": "\[(.*)\]"', played.output))
    assert messages == {"h1": "lost", "h2": "lost", "h3": "failed"}


HANDED_OVER = f"""\
- name: Hand hosts over
  hosts: all
  gather_facts: false
  vars:
    thp_preflight_done: true
    thp_preflight_evaluated: {{problems: []}}
    thp_preflight_held: true
    thp_preflight_drained: true
    thp_preflight_undrain_command: ["true"]
  tasks:
    - name: Begin the run
      kernel_thp.fleet.note:
        state: begun
        directory: kernel-thp-reports
        playbook: rollout
      run_once: true
    - name: Hand the host over
      ansible.builtin.include_tasks: {collection.SOURCE}/playbooks/tasks/hand_over.yml
    - name: Evaluate the batch
      kernel_thp.fleet.note:
        state: evaluated
      run_once: true
"""


def test_a_host_that_dies_on_its_way_into_service_is_lost(ansible: Mapping[str, str], tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(HANDED_OVER)
    hosts = {"h1": GONE, "h2": {**there(tmp_path), "thp_preflight_hook_delegate_to": "h1"}}
    played = plays.play(ansible, tmp_path, hosts, tmp_path / "play.yml")
    assert played.results() == {"h1": "lost", "h2": "failed"}
    assert "the host is not in service: the host does not answer" in played.failed("h1")["why"]
    assert played.failed("h2")["why"].endswith("the undrain command ended with no exit code")
