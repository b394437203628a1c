#!/usr/bin/python
"""Write what a run does with a host to its journal."""

from __future__ import annotations

DOCUMENTATION = """
module: note
short_description: Write what a run does with a host to its journal
version_added: 1.0.0
description:
  - Writes to the journal of the run, on the controller, and updates the report. The host is not contacted.
  - M(kernel_thp.fleet.begin) has to begin the journal first.
  - A note that cannot be written is only a warning, because it must not keep a host from its rollback. With O(release)
    it is a failure, since the host is still unchanged then.
author: kernel-thp project (@kernel-thp)
options:
  step:
    description: The step that begins; this ends the previous one.
    type: str
    default: ""
  release:
    description: The release this host would get. The first host's release counts for the whole run; another one fails.
    type: str
    default: ""
  machine:
    description: What identifies the machine; empty if unknown. It fails if another host of the run is the same machine.
    type: str
    default: ""
  facts:
    description: Facts for the report.
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
- name: Note that the kernel step begins
  kernel_thp.fleet.note:
    step: kernel
"""

RETURN = """
release:
  description: The release of this run; empty until a host has settled it.
  returned: always
  type: str
"""

# The action plugin of the same name does the work, on the controller.
