"""Run an operator's program on a host, as ansible.builtin.command does, but losing the host fails."""

from __future__ import annotations

from ansible.plugins.action.command import ActionModule as Command
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Contact


class ActionModule(Contact, Command):  # type: ignore[misc]
    """As any command, but losing the host fails."""

    limited = False
