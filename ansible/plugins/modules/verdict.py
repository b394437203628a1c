#!/usr/bin/python
"""End the run if too many hosts failed."""

from __future__ import annotations

DOCUMENTATION = """
module: verdict
short_description: End the run if too many hosts failed
version_added: 1.0.0
description:
  - Counts in the journal of the run the hosts that did not get where they should, those that vanished included.
  - Fails if there are more than allowed, or at the end of the run if there are any. Writes the report in any case.
author: kernel-thp project (@kernel-thp)
options:
  max_failed:
    description: How many may fail.
    type: int
    default: 0
"""

EXAMPLES = """
- name: Judge the batch
  kernel_thp.fleet.verdict:
    max_failed: 1
  run_once: true
"""

RETURN = """
report:
  description: The directory of the run.
  returned: always
  type: str
"""

# What it does is done on the controller, by the action plugin of this name.
