#!/usr/bin/python
"""See that roles can be loaded."""

from __future__ import annotations

DOCUMENTATION = """
module: loadable
short_description: See that roles are there, and that their tasks can be read
version_added: 1.0.0
description:
  - A role with an error in its YAML has Ansible end at once, where it is included. A host would be left in the middle.
  - Files that such a role includes while it runs are not looked at.
author: kernel-thp project (@kernel-thp)
options:
  roles:
    description: Names of roles; empty ones are left out.
    type: list
    elements: str
    required: true
attributes:
  check_mode: {support: full, description: It changes nothing.}
"""

EXAMPLES = """
- name: See that the role is sound
  kernel_thp.fleet.loadable:
    roles: [my_balancer]
"""

RETURN = ""

# What it does is done on the controller, by the action plugin of this name.
