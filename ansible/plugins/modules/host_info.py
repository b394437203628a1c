#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Collect facts about a host without changing it."""

from __future__ import annotations

DOCUMENTATION = """
module: host_info
short_description: Collect facts about a host before a rollout
version_added: 1.0.0
description:
  - Returns what the role preflight needs for its decisions, and the record of an earlier rollout. Changes nothing.
author: kernel-thp project (@kernel-thp)
options: {}
attributes:
  check_mode: {support: full, description: It changes nothing in either mode.}
"""

EXAMPLES = """
- name: Collect facts about the host
  kernel_thp.fleet.host_info:
  register: seen
"""

RETURN = """
host:
  description: Kernel, boot loader, free space, tuned, settings of huge pages, counters.
  returned: always
  type: dict
record:
  description: The record of the last rollout on this host, in the format of schemas/record.schema.json, or null.
  returned: always
  type: dict
holder:
  description: The run that works on this host, or null.
  returned: always
  type: dict
"""

from ansible_collections.kernel_thp.fleet.plugins.module_utils import holder, snapshot
from ansible_collections.kernel_thp.fleet.plugins.module_utils.module import Parameters, Result, main
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Store


def work(_parameters: Parameters, _check: bool) -> Result:
    return {"host": snapshot.collect(), "record": Store().read(), "holder": holder.read()}


if __name__ == "__main__":
    main({}, work)
