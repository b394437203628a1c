#!/usr/bin/python
"""Write the reports of runs that were killed."""

from __future__ import annotations

DOCUMENTATION = """
module: report
short_description: Write the reports of runs that were killed
version_added: 1.0.0
description:
  - Writes the report of each run whose process is gone, and of the run that is named. No host is contacted.
author: kernel-thp project (@kernel-thp)
options:
  directory:
    description: The directory of all runs.
    type: path
    required: true
  run:
    description: The name of a run whose report to write again.
    type: str
    default: ""
"""

EXAMPLES = """
- name: Write reports
  kernel_thp.fleet.report:
    directory: ./reports
"""

RETURN = """
aborted:
  description: Runs whose process was gone.
  returned: always
  type: list
  elements: str
"""

# The action plugin of the same name does the work, on the controller.
