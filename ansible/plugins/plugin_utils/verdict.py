"""Count the hosts that failed, and end the run if there are too many.

The count comes from the journal and not from Ansible: for Ansible, a host that was rolled back has not failed, and one
that vanished is no longer in the batch. A host without a journal has failed as well.
"""

from __future__ import annotations

from ansible.utils.display import Display
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import breaker, budget, report, run_dir, summary
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Result, Variables
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal

# The hosts of the play, and those that were not dropped, in total and in the batch.
HOSTS = ("ansible_play_hosts_all", "ansible_play_hosts", "ansible_play_batch")
UNNOTED = "Ansible dropped it before anything was done to it; read its output, and check the host's variables"


def evaluate(found: Journal, check: bool, variables: Variables) -> Result:
    everybody, left, batch = (variables[name] for name in HOSTS)
    reached = summary.reached(everybody, left, batch)
    for host in found.unnoted(reached):
        found.fail(host, "", UNNOTED)
        found.end(host, "failed")
    notes, run = list(found.notes()), found.run()
    fallen = summary.casualties(notes)
    through = len(reached) == len(everybody)
    too_many, count = budget.verdict(run, fallen)
    surveys = run["playbook"] == summary.SURVEY
    complaint = summary.complaint(count, fallen) if fallen else None
    if fallen and surveys:
        complaint = summary.unready(fallen, len(notes))
    # Check mode has harmed nobody, and shows all hosts.
    stops = too_many and not through and not run["check"]
    if stops or through:
        whole = report.finish(found, "stopped" if stops else "finished", complaint, notes)
        Display().display(summary.table(whole))
        if through:
            run_dir.leave()
    else:
        breaker.settle(found, fallen)
        report.write(found, notes)
    # Failures within the budget do not stop the run, but a run with failed hosts does not exit with 0.
    failed = stops or (through and bool(fallen))
    message = complaint or f"{len(notes)} hosts, none failed"
    where = "" if check else f"; report: {found.folder}"
    pause = 0 if failed or through or check else run["pause"]
    return {"failed": failed, "msg": message + where, "report": str(found.folder), "pause": pause}
