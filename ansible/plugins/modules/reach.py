#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Wait until a host answers."""

from __future__ import annotations

DOCUMENTATION = """
module: reach
short_description: Wait until a host answers
version_added: 1.0.0
description:
  - As M(ansible.builtin.wait_for_connection), but also in check mode. A host that does not answer fails with
    C(lost_contact).
  - A host that is shutting down counts as not answering.
author: kernel-thp project (@kernel-thp)
options:
  timeout:
    description: Seconds to wait.
    type: int
    default: 600
  connect_timeout:
    description: Seconds for one attempt.
    type: int
    default: 5
  sleep:
    description: Seconds between attempts.
    type: int
    default: 1
"""

EXAMPLES = """
- name: Wait for the host
  kernel_thp.fleet.reach:
    timeout: 60
"""

RETURN = ""

# The action plugin of the same name does the work, on the controller.
