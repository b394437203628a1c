#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Check that roles can be loaded."""

from __future__ import annotations

DOCUMENTATION = """
module: loadable
short_description: Check that roles exist, and that their tasks can be loaded
version_added: 1.0.0
description:
  - When Ansible includes a role with a YAML error, it ends at once and leaves hosts in the middle of the rollout.
  - Files that a role includes while it runs are not checked.
author: kernel-thp project (@kernel-thp)
options:
  roles:
    description: Names of roles; empty ones are ignored.
    type: list
    elements: str
    required: true
attributes:
  check_mode: {support: full, description: It changes nothing.}
"""

EXAMPLES = """
- name: Check that the role can be loaded
  kernel_thp.fleet.loadable:
    roles: [my_balancer]
"""

RETURN = ""

# The action plugin of the same name does the work, on the controller.
