#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Wait for a background job on a host."""

from __future__ import annotations

DOCUMENTATION = """
module: job
short_description: Wait for a background job on a host
version_added: 1.0.0
description:
  - Waits until the job has ended, and deletes its files. The result is that of the job, even if it failed.
  - A host that does not answer for a moment is polled again. One that stays silent fails with C(lost_contact). One that
    has rebooted fails at once, since the reboot ended the job. So does one on which the job ended without a result,
    because it was killed or the host was too busy to start it.
author: kernel-thp project (@kernel-thp)
options:
  jid:
    description: The job, as C(ansible_job_id) of the task that started it.
    type: str
    required: true
  boot_id:
    description: The boot in which it was started, as C(boot_id) of that task.
    type: str
    required: true
  timeout:
    description: Seconds within which the job has to end.
    type: int
    required: true
  silence:
    description: Seconds without an answer after which the host is lost.
    type: int
    default: 180
"""

EXAMPLES = """
- name: Start the soak
  kernel_thp.fleet.soak:
    seconds: 600
  async: 900
  poll: 0
  register: soaking

- name: Wait for the end of the soak
  kernel_thp.fleet.job:
    jid: "{{ soaking.ansible_job_id }}"
    boot_id: "{{ soaking.boot_id }}"
    timeout: 900
"""

RETURN = ""

# The action plugin of the same name does the work, on the controller.
