#!/usr/bin/python
"""Begin a run."""

from __future__ import annotations

DOCUMENTATION = """
module: begin
short_description: Begin a run
version_added: 1.0.0
description:
  - Makes the folder in which a play is noted down, on the controller, with the hosts it is about. It is the same for
    all hosts and batches of the play, whatever variables say later. In check mode it goes with ansible-playbook.
  - Fails if hosts of the play have different directories for reports, or if tags leave out tasks of the play.
  - M(kernel_thp.fleet.note) and M(kernel_thp.fleet.verdict) need it. The second time in a play it does nothing.
author: kernel-thp project (@kernel-thp)
options:
  directory:
    description: Where folders of runs are.
    type: path
    required: true
  playbook:
    description: What the run does.
    type: str
    choices: [rollout, rollback, validate]
    required: true
"""

EXAMPLES = """
- name: Begin the run
  kernel_thp.fleet.begin:
    directory: ./reports
    playbook: rollout
  run_once: true
"""

RETURN = ""

# What it does is done on the controller, by the action plugin of this name.
