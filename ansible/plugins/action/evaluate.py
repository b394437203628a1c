"""Run the module evaluate on a host."""

from __future__ import annotations

from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import InBackground


class ActionModule(InBackground):
    """As any module, but losing the host fails."""
