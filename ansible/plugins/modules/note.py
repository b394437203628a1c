#!/usr/bin/python
"""Write down what a run does with a host."""

from __future__ import annotations

DOCUMENTATION = """
module: note
short_description: Write down what a run does with a host
version_added: 1.0.0
description:
  - Writes to the journal of the run, on the controller, and brings its report up to date. The host is not asked.
  - That is begun by M(kernel_thp.fleet.begin).
  - What cannot be written is a warning, so that a host is not kept from its way back. With O(release) it is a failure,
    as the host has not been changed by then.
author: kernel-thp project (@kernel-thp)
options:
  step:
    description: A step that begins; the one before it is over.
    type: str
    default: ""
  release:
    description: The release this host would get. The first one of a run counts for all; another one fails.
    type: str
    default: ""
  facts:
    description: What was found out, for the report.
    type: dict
    default: {}
  failed_task:
    description: The task at which the step failed.
    type: str
    default: ""
  result:
    description: How the host ended.
    type: str
    default: ""
  why:
    description: Why it failed.
    type: str
    default: ""
"""

EXAMPLES = """
- name: Note that the kernel comes
  kernel_thp.fleet.note:
    step: kernel
"""

RETURN = """
release:
  description: The release that the run is about; empty before that is settled.
  returned: always
  type: str
"""

# What it does is done on the controller, by the action plugin of this name.
