#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Reboot a host within a timeout, and check which kernel it booted."""

from __future__ import annotations

DOCUMENTATION = """
module: reboot
short_description: Reboot a host within a timeout, and check which kernel it booted
version_added: 1.0.0
description:
  - As M(ansible.builtin.reboot), for the run that holds the host. A host that does not return fails with
    C(lost_contact).
  - Runs M(kernel_thp.fleet.boot) on the host as soon as it answers, so that no host has to wait for others while its
    kernel is unconfirmed.
  - With O(state=returned), a shutdown that has not ended after half of O(reboot_timeout) is forced.
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
  panic_on_lockup:
    description: Whether the new kernel panics on lockups and RCU stalls. For O(state=confirmed).
    type: bool
    default: true
  left:
    description: The boot that had to end. For O(state=returned).
    type: str
    default: ""
  reboot_timeout:
    description: Seconds within which the host has to answer again.
    type: int
    default: 600
  msg:
    description: The message to the users of the host.
    type: str
    default: Reboot initiated by Ansible
"""

EXAMPLES = """
- name: Reboot
  kernel_thp.fleet.reboot:
    state: confirmed
    uname: 6.1.187-1.x86_64+thp.cloud
    reboot_timeout: 600
"""

RETURN = ""

# The action plugin of the same name does the work, on the controller.
