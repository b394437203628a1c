#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Run a program on a host."""

from __future__ import annotations

DOCUMENTATION = """
module: command
short_description: Run a program on a host
version_added: 1.0.0
description:
  - As M(ansible.builtin.command), but losing the host fails with C(lost_contact) instead of dropping it from the play.
author: kernel-thp project (@kernel-thp)
options:
  argv:
    description: The program and its arguments.
    type: list
    elements: str
  before_trial:
    description:
      - Whether the program takes the host out of service for a new kernel. It is not run if more hosts of the run have
        failed than may.
    type: bool
    default: false
"""

EXAMPLES = """
- name: Take the host out of service
  kernel_thp.fleet.command:
    argv: [/usr/local/bin/drain, web]
"""

RETURN = ""

# The action plugin of the same name does the work, on the controller.
