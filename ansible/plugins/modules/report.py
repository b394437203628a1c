#!/usr/bin/python
"""Make reports of runs that were killed."""

from __future__ import annotations

DOCUMENTATION = """
module: report
short_description: Make reports of runs that were killed
version_added: 1.0.0
description:
  - Makes the report of each run whose process is not there any more, and of the one that is named. No host is asked.
author: kernel-thp project (@kernel-thp)
options:
  directory:
    description: Where journals are.
    type: path
    required: true
  run:
    description: A run whose report is made anew.
    type: str
    default: ""
"""

EXAMPLES = """
- name: Make reports
  kernel_thp.fleet.report:
    directory: ./reports
"""

RETURN = """
aborted:
  description: Runs that were found dead.
  returned: always
  type: list
  elements: str
"""

# What it does is done on the controller, by the action plugin of this name.
