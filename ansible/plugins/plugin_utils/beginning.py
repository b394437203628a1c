"""Begin a run: create its directory, and note its hosts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.playbook.task import Task
from ansible.utils.vars import load_extra_vars
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import budget, process, report, run_dir
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.contact import Variables

BUDGETS = ("max_failed", "max_lost", "max_unreachable")
DIRECTORY = "thp_report_directory"
# What the batches are made of, see batches.py.
PLAN = ("thp_fleet_hosts", "thp_fleet_canaries", "thp_fleet_serial", "thp_fleet_domains", "thp_fleet_domain_share")
# Their batches have a size of their own.
UNCHANGING = ("survey", "validate")
IN_PART = "--tags or --skip-tags leave out tasks of this run, which would then look like a success; run without them"


def check_hosts(task: Task, playbook: str, directory: str, budgets: Mapping[str, str], variables: Variables) -> None:
    """Fail if variables of the play's hosts say otherwise than the run does, which is one for all of them."""
    # These override what hosts have.
    given = {*load_extra_vars(DataLoader()), *task.get_play().vars}
    plan = [name for name in (PLAN[:2] if playbook in UNCHANGING else PLAN) if name not in given]
    one = {DIRECTORY: directory, **({} if playbook in UNCHANGING else budgets)}
    one = {name: value for name, value in one.items() if name not in given}
    found: dict[str, dict[str, object]] = {name: {} for name in one}
    for host in variables["ansible_play_hosts_all"]:
        # Once for each host: Ansible collects all its variables for that.
        own = variables["hostvars"][host]
        late = ", ".join(name for name in plan if name in own)
        if late:
            why = f"{host} has {late} from the inventory or set_fact, which Ansible reads after it has made the batches"
            raise AnsibleActionFail(f"{why}; give that by -e")
        for name in one:
            try:
                found[name][host] = own.get(name)
            except AnsibleError as error:
                raise AnsibleActionFail(f"{name} of {host} cannot be templated: {error}; give it by -e") from error
    for name, value in one.items():
        other = different(value, variables["inventory_hostname"], found[name])
        if other:
            would = Path(value).absolute() if name == DIRECTORY else value
            raise AnsibleActionFail(f"a run has one {name}: it would be {would}, but {other}; give it by -e")


def different(given: str, host: str, found: Mapping[str, object]) -> str:
    """Return which host of the play has another value than the one given, and which; or nothing."""
    values = {name: None if value is None else str(value) for name, value in found.items()}
    own = values[host]
    # Extra variables override the inventory and are the same for every host.
    others = [name for name, value in values.items() if own in (None, given) and value not in (own, given)]
    return f"{others[0]} has {values[others[0]] or 'the default'}" if others else ""


def begin(task: Task, given: Variables, variables: Variables) -> Variables:
    if run_dir.settled() is not None:
        # An earlier batch of this play began it.
        return {}
    if not _others_too(task, variables):
        if task.get_play().tags:
            # The whole play was imported with tags that are not selected.
            return {"skipped": True}
        raise AnsibleActionFail(IN_PART)
    budgets = {f"thp_fleet_{name}": given[name] for name in (*BUDGETS, "pause")}
    check_hosts(task, given["playbook"], str(task.args["directory"]), budgets, variables)
    planned = variables["ansible_play_hosts_all"]
    settings = {name: budget.allowed(given[name], len(planned), f"thp_fleet_{name}") for name in BUDGETS}
    settings["pause"] = budget.seconds(given["pause"], "thp_fleet_pause")
    folder = Path(given["directory"])
    aborted = [] if task.check_mode else report.finish_dead(folder.expanduser())
    found = run_dir.settle(folder, task.check_mode)
    run, controller = process.this_run(), process.controller()
    found.begin(run, given["playbook"], controller, planned, task.check_mode, batches=given["batches"], **settings)
    return {"aborted": aborted}


def _others_too(task: Task, variables: Variables) -> bool:
    """Say whether Ansible runs the other tasks of the play as well. It always runs this one, which is tagged."""
    play, other = task.get_play(), task.copy()
    other.tags = list(play.tags)
    return bool(other.evaluate_tags(play.only_tags, play.skip_tags, variables))
