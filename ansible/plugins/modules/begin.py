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
    choices: [rollout, rollback, validate, survey]
    required: true
  max_failed:
    description: How many hosts may fail, as a number, or as a percentage of the play's hosts, which is rounded down.
    type: str
    default: "0"
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
