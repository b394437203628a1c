#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Keep the journal of a run."""

from __future__ import annotations

DOCUMENTATION = """
module: note
short_description: Keep the journal of a run, and its report
version_added: 1.0.0
description:
  - Writes to the journal of the run, on the controller, and updates the report. No host is contacted.
author: kernel-thp project (@kernel-thp)
options:
  state:
    description:
      - V(begun), create the directory of the run, with the list of its hosts. All hosts and batches of the play use it,
        whatever variables say later. In check mode ansible-playbook deletes it at its end. Fails if hosts of the play
        have different directories for reports or different budgets, or have variables that the batches are made of,
        which Ansible reads too late for that, or if tags leave out tasks of the play. Also writes the reports of runs
        whose process is gone. A second call in the same play does nothing.
      - V(noted), write what is done with a host. A note that cannot be written is only a warning, because it must not
        keep a host from its rollback. With O(release) it is a failure, since the host is still unchanged then.
      - V(evaluated), count the hosts that failed, including hosts that vanished. Fails if there are more than V(begun)
        allows, if a rollout has a first batch of which no host is well, or at the end of the run if any failed. Writes
        the report in any case.
      - V(reported), write the reports of runs whose process is gone, and that of the run that is named.
    type: str
    choices: [begun, noted, evaluated, reported]
    default: noted
  directory:
    description: The directory of all runs. Needed with V(begun) and V(reported).
    type: path
  playbook:
    description: The playbook of the run. Needed with V(begun).
    type: str
    choices: [rollout, rollback, validate, survey]
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
    description: Seconds between two batches, which V(evaluated) returns.
    type: str
    default: "0"
  batches:
    description: The sizes of the batches, in order.
    type: list
    elements: int
    default: []
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
  run:
    description: The directory of a run, by its name below O(directory), whose report to write again. For V(reported).
    type: str
    default: ""
"""

EXAMPLES = """
- name: Begin the run
  kernel_thp.fleet.note:
    state: begun
    directory: ./reports
    playbook: rollout
    max_failed: 5%
  run_once: true

- name: Note that the kernel step begins
  kernel_thp.fleet.note:
    step: kernel

- name: Evaluate the batch
  kernel_thp.fleet.note:
    state: evaluated
  run_once: true
"""

RETURN = """
release:
  description: The release of this run; empty until a host has settled it.
  returned: state is noted
  type: str
report:
  description: The directory of the run.
  returned: state is evaluated
  type: str
pause:
  description: Seconds until the next batch; 0 after the last one, and in check mode.
  returned: state is evaluated
  type: int
aborted:
  description: Runs whose process was gone.
  returned: state is reported, or begun
  type: list
  elements: str
"""

# The action plugin of the same name does the work, on the controller.
