#!/usr/bin/python
"""Run a program on a host."""

from __future__ import annotations

DOCUMENTATION = """
module: command
short_description: Run a program on a host
version_added: 1.0.0
description:
  - As M(ansible.builtin.command). Losing the host in the middle fails with C(lost_contact), and is not passed over.
author: kernel-thp project (@kernel-thp)
options:
  argv:
    description: The program and its arguments.
    type: list
    elements: str
"""

EXAMPLES = """
- name: Take the host out of service
  kernel_thp.fleet.command:
    argv: [/usr/local/bin/drain, web]
"""

RETURN = ""

# What it does is done on the controller, by the action plugin of this name.
