"""Run the module packages on a host."""

from __future__ import annotations

from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.holding import AsHolder


class ActionModule(AsHolder):
    """For the run that holds the host; losing the host fails."""
