"""Run the module host_info on a host."""

from __future__ import annotations

from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import OnHost


class ActionModule(OnHost):
    """As any module, but losing the host fails."""
