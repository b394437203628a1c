#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Boot a kernel once, make it the default, or roll that back."""

from __future__ import annotations

DOCUMENTATION = """
module: boot
short_description: Boot a kernel once, and make it the default once it has passed
version_added: 1.0.0
description:
  - Works with systemd-boot, and with GRUB that reads boot loader entries. It detects which one the host has.
author: kernel-thp project (@kernel-thp)
options:
  state:
    description:
      - V(held), the old kernel stays the default, whatever is installed.
      - V(once), only the next boot starts the new kernel.
      - V(confirmed), the host has booted the new kernel.
      - V(kept), the new kernel is the default from now on, even if other kernels are installed.
      - V(returning), the old kernel is the default again, and starts next.
      - V(returned), the host has booted the old kernel.
      - V(restored), the boot loader is configured as it was before the rollout.
    choices: [held, once, confirmed, kept, returning, returned, restored]
    required: true
    type: str
  uname:
    description: C(uname -r) of the new kernel.
    type: str
    default: ""
  panic:
    description: Seconds from a panic of the new kernel to the reboot, for V(once) and V(confirmed).
    type: int
    default: 30
  panic_on_lockup:
    description: >-
      Whether the new kernel panics on soft and hard lockups and on RCU stalls, for V(once) and V(confirmed), and until
      it is confirmed on tasks that are blocked for one to two times C(kernel.hung_task_timeout_secs), 120 by default.
      It never does on a host whose old kernel complained about the same.
    type: bool
    default: true
  watchdog:
    description: Seconds after which the hardware watchdog resets a host on which systemd hangs. 0 for no watchdog.
    type: int
    default: 60
  arguments:
    description: Further kernel parameters for the trial boot.
    type: list
    elements: str
    default: []
  check_drivers:
    description: >-
      Whether to refuse to boot a kernel, in V(once), that has no driver for a disk with a mounted file system or for a
      network interface that has a link or carries the default route, or that lacks a loaded module of third parties.
    type: bool
    default: true
  timeout:
    description: >-
      Seconds after which an unconfirmed boot ends by itself (O(state=held) for its initramfs, O(state=once)), or
      within which systemd has to mark the boot as good (O(state=kept)).
    type: int
    default: 600
  left:
    description: The boot that had to end, as C(boot_id) of O(state=returning). For O(state=returned).
    type: str
    default: ""
  run:
    description: The run that works on the host. Filled in automatically.
    type: str
    required: true
attributes:
  check_mode: {support: full, description: Reports how it would configure the boot loader.}
"""

EXAMPLES = """
- name: Try the new kernel in the next boot
  kernel_thp.fleet.boot:
    state: once
    uname: 6.1.187-1.x86_64+thp.cloud
"""

RETURN = """
reboot:
  description: Whether a reboot is needed to reach the state.
  returned: always
  type: bool
boot_id:
  description: The id of the present boot.
  returned: not in check mode
  type: str
"""

from dataclasses import fields

from ansible_collections.kernel_thp.fleet.plugins.module_utils import booting, snapshot
from ansible_collections.kernel_thp.fleet.plugins.module_utils.module import Parameters, Result, difference, main
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Store

ARGUMENTS = {
    "state": {
        "type": "str",
        "choices": ["held", "once", "confirmed", "kept", "returning", "returned", "restored"],
        "required": True,
    },
    "uname": {"type": "str", "default": ""},
    "panic": {"type": "int", "default": 30},
    "panic_on_lockup": {"type": "bool", "default": True},
    "watchdog": {"type": "int", "default": 60},
    "arguments": {"type": "list", "elements": "str", "default": []},
    "check_drivers": {"type": "bool", "default": True},
    "timeout": {"type": "int", "default": 600},
    "left": {"type": "str", "default": ""},
}


def work(parameters: Parameters, check: bool) -> Result:
    if check:
        before, after = booting.plan(parameters["state"], parameters["uname"], Store().read())
        return {**difference(before, after), "reboot": False}
    host = booting.Host(Store())
    before = host.boot_settings()
    needs_reboot = False
    if parameters["state"] == "held":
        host.hold(parameters["timeout"])
    elif parameters["state"] == "once":
        trial = booting.Trial(**{each.name: parameters[each.name] for each in fields(booting.Trial)})
        needs_reboot = host.try_once(trial)
    elif parameters["state"] == "confirmed":
        host.confirm(parameters["uname"], parameters["panic"], parameters["panic_on_lockup"])
    elif parameters["state"] == "kept":
        host.keep(parameters["uname"], parameters["timeout"])
    elif parameters["state"] == "returning":
        needs_reboot = host.roll_back()
    elif parameters["state"] == "returned":
        host.expect_old_kernel(parameters["left"])
    else:
        host.restore()
    found = {"changed": host.changed, "reboot": needs_reboot, "boot_id": snapshot.boot_id()}
    return {**difference(before, host.boot_settings()), **found}


if __name__ == "__main__":
    main(ARGUMENTS, work, changes=True)
