#!/usr/bin/python
"""Reboot a host within a time limit."""

from __future__ import annotations

DOCUMENTATION = """
module: reboot
short_description: Reboot a host within a time limit
version_added: 1.0.0
description:
  - As M(ansible.builtin.reboot), for the run that holds the host. One that does not come back fails with
    C(lost_contact).
author: kernel-thp project (@kernel-thp)
options:
  reboot_timeout:
    description: Seconds until the host has to answer again.
    type: int
    default: 600
  msg:
    description: What users of the host are told.
    type: str
    default: Reboot initiated by Ansible
"""

EXAMPLES = """
- name: Reboot
  kernel_thp.fleet.reboot:
    reboot_timeout: 600
"""

RETURN = ""

# What it does is done on the controller, by the action plugin of this name.
