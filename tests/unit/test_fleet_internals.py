"""Parts of Ansible that the collection uses although nobody promises them: a new release may change or drop each.

`make collection-matrix` runs this with every release that meta/runtime.yml admits.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from ansible import constants, context
from ansible.cli.playbook import PlaybookCLI
from ansible.executor.task_executor import TaskExecutor
from ansible.executor.task_result import TaskResult
from ansible.inventory.manager import InventoryManager
from ansible.playbook.block import Block
from ansible.playbook.play import Play
from ansible.playbook.role import Role
from ansible.playbook.role.include import RoleInclude
from ansible.playbook.task import Task
from ansible.plugins.action import ActionBase
from ansible.plugins.action.async_status import ActionModule as AsyncStatus
from ansible.plugins.action.normal import ActionModule as Normal
from ansible.plugins.action.reboot import ActionModule as Reboot
from ansible.plugins.action.wait_for_connection import ActionModule as WaitForConnection
from ansible.plugins.connection import ConnectionBase
from ansible.plugins.shell import ShellBase
from ansible.template import Templar
from ansible.utils.vars import load_extra_vars


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        # action/reboot.py replaces the first two, and gives the command as an argument of the task.
        (Reboot.get_distribution, ["self", "task_vars"]),
        (Reboot.perform_reboot, ["self", "task_vars", "distribution"]),
        (ActionBase._execute_module, ["self", "module_name", "module_args", "tmp", "task_vars"]),
        (ActionBase._remove_tmp_path, ["self", "tmp_path"]),
        # plugin_utils/contact.py wraps these, and passes on whatever it is given.
        (ActionBase._low_level_execute_command, ["self", "cmd", "sudoable"]),
        (ActionBase._transfer_file, ["self", "local_path", "remote_path"]),
        (ActionBase.cleanup, ["self", "force"]),
        (ActionBase.validate_argument_spec, ["self", "argument_spec", "mutually_exclusive", "required_together"]),
        (Templar.template, ["self", "variable"]),
        # action/loadable.py loads an operator's role.
        (Role.load, ["role_include", "play", "parent_role", "from_files", "from_include"]),
        (RoleInclude.load, ["data", "play"]),
        # plugin_utils/beginning.py asks whether tags leave out tasks.
        (Task.get_play, ["self"]),
        (Task.evaluate_tags, ["self", "only_tags", "skip_tags", "all_vars"]),
        # It also asks which variables were given by -e.
        (load_extra_vars, ["loader"]),
        # plugin_utils/batches.py has --limit applied to groups.
        (InventoryManager.subset, ["self", "subset_pattern"]),
    ],
)
def test_a_function_takes_what_it_is_given(function: Callable[..., Any], takes: list[str]) -> None:
    assert list(inspect.signature(function).parameters)[: len(takes)] == takes


@pytest.mark.parametrize(
    ("caller", "callee"),
    [
        # Otherwise a reboot would be ordered without a look at the holder and at the budget.
        (Reboot.run, "perform_reboot"),
        (Reboot.run, "get_distribution"),
        # Otherwise a host that is silent would be waited for without a timeout.
        (ActionBase._execute_module, "_low_level_execute_command"),
        (ActionBase._transfer_data, "_transfer_file"),
        (Normal.run, "_execute_module"),
        (AsyncStatus.run, "_execute_module"),
        (WaitForConnection.run, "do_until_success_or_timeout"),
    ],
)
def test_ansible_calls_what_the_collection_replaces(caller: Callable[..., Any], callee: str) -> None:
    assert callee in names(caller)


def names(function: Callable[..., Any]) -> set[str]:
    """Return what a function refers to."""
    code = inspect.unwrap(function).__code__
    nested = [const for const in code.co_consts if inspect.iscode(const)]
    return {name for each in (code, *nested) for name in each.co_names}


@pytest.mark.parametrize(
    ("owner", "attribute"),
    [
        *((ActionBase, name) for name in ("_task", "_connection", "_templar", "_loader")),
        # action/reboot.py forgets the directory that a host had before its reboot.
        (ConnectionBase, "_shell"),
        (ShellBase, "tmpdir"),
        # callback/progress.py; up to 2.18 they are no properties.
        *((TaskResult, name) for name in ("_host", "_task", "_result")),
    ],
)
def test_an_object_has_what_the_collection_reads_from_it(owner: type, attribute: str) -> None:
    found = dis.get_instructions(owner.__init__)  # type: ignore[misc]
    assert hasattr(owner, attribute) or attribute in {each.argval for each in found if each.opname == "STORE_ATTR"}


def test_a_task_has_what_the_collection_reads_from_it() -> None:
    play = Play()
    task = Task(Block(play))
    # action/loadable.py loads a role into it.
    assert task.play is play
    for name in ("args", "async_val", "check_mode", "collections", "failed_when", "tags"):
        assert hasattr(task, name), name


def test_the_alarm_is_free_unless_a_task_has_a_timeout() -> None:
    """plugin_utils/contact.py uses it for its own timeout."""
    assert not Task().timeout
    # Up to 2.18, it sets the alarm itself.
    methods = [each for each in vars(TaskExecutor).values() if inspect.isfunction(each)]
    assert {"SIGALRM", "alarm_timeout"} & {name for each in methods for name in names(each)}


@pytest.mark.parametrize("option", ["start_at_task", "subset", "syntax"])
def test_filters_see_the_options_of_the_command(option: str) -> None:
    """filter/fleet.py reads them."""
    assert context.CLIARGS.get("no such option") is None
    command = PlaybookCLI(["ansible-playbook"])
    command.init_parser()
    assert hasattr(command.parser.parse_args(["x.yml"]), option)


def test_there_are_the_attributes_that_are_read() -> None:
    play = Play()
    assert play.only_tags is not None and play.skip_tags is not None
    # callback/progress.py tells the batches of a play from other plays: Ansible copies a play for each of its batches.
    assert play.copy()._uuid == play._uuid != Play()._uuid
    # It prints the size of each batch.
    assert Play.load({"hosts": "all", "serial": [1, 2]}).serial == [1, 2]
    assert constants.DEFAULT_LOCAL_TMP
    assert Reboot.DEFAULT_REBOOT_TIMEOUT and Reboot.DEFAULT_REBOOT_MESSAGE
    assert WaitForConnection.DEFAULT_TIMEOUT and WaitForConnection.DEFAULT_CONNECT_TIMEOUT
    assert list(inspect.signature(InventoryManager).parameters)[:3] == ["loader", "sources", "parse"]
    assert "collection_list" in inspect.signature(RoleInclude.load).parameters
