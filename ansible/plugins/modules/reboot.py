#!/usr/bin/python
"""Reboot a host within a time limit, and see which kernel it came up with."""

from __future__ import annotations

DOCUMENTATION = """
module: reboot
short_description: Reboot a host within a time limit, and see which kernel it came up with
version_added: 1.0.0
description:
  - As M(ansible.builtin.reboot), for the run that holds the host. One that does not come back fails with
    C(lost_contact).
  - As soon as the host answers, M(kernel_thp.fleet.boot) is run there, so that no host has to wait for others with a
    kernel that nobody has confirmed.
author: kernel-thp project (@kernel-thp)
options:
  state:
    description: What has to be true afterwards, as in M(kernel_thp.fleet.boot).
    choices: [confirmed, returned]
    required: true
    type: str
  uname:
    description: C(uname -r) of the new kernel. For O(state=confirmed).
    type: str
    default: ""
  panic:
    description: Seconds after which the new kernel reboots when it panics. For O(state=confirmed).
    type: int
    default: 30
  left:
    description: The boot that had to end. For O(state=returned).
    type: str
    default: ""
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
    state: confirmed
    uname: 6.1.187-1.x86_64+thp
    reboot_timeout: 600
"""

RETURN = ""

# What it does is done on the controller, by the action plugin of this name.
