#!/usr/bin/python
"""Begin a run."""

from __future__ import annotations

DOCUMENTATION = """
module: begin
short_description: Begin a run
version_added: 1.0.0
description:
  - Creates the directory of the run on the controller, with the list of its hosts. All hosts and batches of the play
    use this directory, whatever variables say later. In check mode ansible-playbook deletes it at its end.
  - Fails if hosts of the play have different directories for reports, or if tags leave out tasks of the play.
  - M(kernel_thp.fleet.note) and M(kernel_thp.fleet.verdict) need it. A second call in the same play does nothing.
author: kernel-thp project (@kernel-thp)
options:
  directory:
    description: The directory of all runs.
    type: path
    required: true
  playbook:
    description: The playbook of the run.
    type: str
    choices: [rollout, rollback, validate]
    required: true
  max_failed:
    description: How many hosts may fail, as a number, or as a percentage of the play's hosts, which is rounded down.
    type: str
    default: "0"
  max_lost:
    description: How many hosts may be lost, in the same form. Those that are lost have failed as well.
    type: str
    default: "1"
  max_unreachable:
    description:
      - How many hosts may be unreachable when their turn comes, in the same form, without counting as failed. Those of
        the first batch always count.
    type: str
    default: 5%
  pause:
    description: Seconds between two batches, which M(kernel_thp.fleet.verdict) returns.
    type: str
    default: "0"
  batches:
    description: The sizes of the batches, in order.
    type: list
    elements: int
    default: []
"""

EXAMPLES = """
- name: Begin the run
  kernel_thp.fleet.begin:
    directory: ./reports
    playbook: rollout
    max_failed: 5%
  run_once: true
"""

RETURN = ""

# The action plugin of the same name does the work, on the controller.
