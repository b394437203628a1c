#!/usr/bin/python
"""End the run if too many hosts failed."""

from __future__ import annotations

DOCUMENTATION = """
module: verdict
short_description: End the run if too many hosts failed
version_added: 1.0.0
description:
  - Counts the hosts that failed in the journal of the run, including hosts that vanished.
  - Fails if there are more than M(kernel_thp.fleet.begin) allows, or at the end of the run if there are any. Writes
    the report in any case.
author: kernel-thp project (@kernel-thp)
"""

EXAMPLES = """
- name: Evaluate the batch
  kernel_thp.fleet.verdict:
  run_once: true
"""

RETURN = """
pause:
  description: Seconds until the next batch; 0 after the last one, and in check mode.
  returned: always
  type: int
report:
  description: The directory of the run.
  returned: always
  type: str
"""

# The action plugin of the same name does the work, on the controller.
