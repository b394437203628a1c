"""The output of a run that says how far it is: batches, steps and failures instead of tasks and hosts."""

from __future__ import annotations

DOCUMENTATION = """
name: progress
type: stdout
short_description: Show the progress of a run by batch
version_added: 1.0.0
description:
  - Prints a line for each batch, with an estimate of what is left, for each step of it, for each host that fails, and
    for each verdict. It is quiet about everything else.
  - The estimate is the mean time of the batches that are over, pauses included, for each one that is left.
author: kernel-thp project (@kernel-thp)
requirements:
  - Set C(stdout_callback=kernel_thp.fleet.progress) in the section C(defaults) of ansible.cfg.
"""

import datetime
import time
from typing import TYPE_CHECKING

from ansible.plugins.callback import CallbackBase
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import encoding
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.progress import Batches, span

if TYPE_CHECKING:
    from ansible.executor.stats import AggregateStats
    from ansible.executor.task_result import TaskResult
    from ansible.playbook.play import Play
    from ansible.playbook.task import Task

NOTE = "kernel_thp.fleet.note"


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "kernel_thp.fleet.progress"

    def __init__(self) -> None:
        super().__init__()
        self._batches = Batches("", ())

    def v2_playbook_on_play_start(self, play: Play) -> None:
        """Begin a play, or the next batch of the present one."""
        if play._uuid != self._batches.play:
            # Plays of others may have percentages.
            sizes = play.serial if all(isinstance(size, int) for size in play.serial) else ()
            self._batches = Batches(play._uuid, tuple(sizes))
            self._say(play.get_name())
        self._say(self._batches.begin(time.monotonic()))

    def v2_playbook_on_task_start(self, task: Task, is_conditional: bool) -> None:
        step = task.args.get("step") if task.action == NOTE else None
        if step:
            self._say(f"  {step}, {span(self._batches.age(time.monotonic()))} after the batch began")

    def v2_runner_on_ok(self, result: TaskResult) -> None:
        if _is_verdict(result._task):
            self._say(f"  {result._result.get('msg')}")

    def v2_runner_on_failed(self, result: TaskResult, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            self._failed(result)

    def v2_runner_on_unreachable(self, result: TaskResult) -> None:
        self._failed(result)

    def _failed(self, result: TaskResult) -> None:
        # The verdict is about all hosts, and Ansible gives it to one of them.
        who = "" if _is_verdict(result._task) else f"{result._host.get_name()}: {result._task.get_name()}: "
        found = result._result
        self._say(f"  {who}{encoding.reason(found) if 'censored' not in found else found['censored']}", "red")

    def v2_playbook_on_stats(self, stats: AggregateStats) -> None:
        self._say(f"ended after {span(self._batches.total(time.monotonic()))}")

    def _say(self, text: str, color: str | None = None) -> None:
        self._display.display(f"{datetime.datetime.now():%H:%M:%S} {text}", color=color)


def _is_verdict(task: Task) -> bool:
    return bool(task.action == NOTE and task.args.get("state") == "evaluated")
