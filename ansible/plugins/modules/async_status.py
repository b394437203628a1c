#!/usr/bin/python
"""Ask for a job in the background of a host."""

from __future__ import annotations

DOCUMENTATION = """
module: async_status
short_description: Ask for a job in the background of a host
version_added: 1.0.0
description:
  - As M(ansible.builtin.async_status). Losing the host for a moment does not end the job, and says so.
author: kernel-thp project (@kernel-thp)
options:
  jid:
    description: The job.
    type: str
    required: true
  mode:
    description: Whether to ask, or to remove what the job left (V(cleanup)).
    type: str
    choices: [status, cleanup]
    default: status
"""

EXAMPLES = """
- name: Wait for the job
  kernel_thp.fleet.async_status:
    jid: "{{ job.ansible_job_id }}"
  register: waited
  until: waited.finished
"""

RETURN = ""

# What it does is done on the controller, by the action plugin of this name.
