#!/usr/bin/python
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
"""Install exact packages, and roll back what an install changed."""

from __future__ import annotations

DOCUMENTATION = """
module: packages
short_description: Install exact packages with dnf, and roll that back
version_added: 1.0.0
description:
  - Installs packages with their signatures checked, verifies each with rpm, and records what was added and removed,
    including dependencies. Packages that somebody else installs meanwhile are not counted.
  - Restoring removes exactly what was added, and installs again what was removed or replaced by a newer version.
author: kernel-thp project (@kernel-thp)
options:
  state:
    description: Whether to install, or to undo the changes in the record.
    choices: [installed, restored]
    required: true
    type: str
  packages:
    description: Full names, with version, release and architecture. Needed with O(state=installed).
    type: list
    elements: str
    default: []
  repositories:
    description: The only repositories to install from, by their ids. Restoring uses all that answer.
    type: list
    elements: str
    default: []
  lock_timeout:
    description: Seconds to wait for another package transaction, or another step on the host.
    type: int
    default: 300
  run:
    description: The run that works on the host. Filled in automatically.
    type: str
    required: true
attributes:
  check_mode: {support: full, description: Reports what is missing.}
"""

EXAMPLES = """
- name: Install the kernel
  kernel_thp.fleet.packages:
    state: installed
    packages: [kernel-thp-cloud-core-6.1.187-1.x86_64]
    repositories: [kernel-thp]
"""

RETURN = """
added:
  description: Packages that were installed.
  returned: always
  type: list
  elements: str
removed:
  description: Packages that were removed.
  returned: always
  type: list
  elements: str
"""

from ansible_collections.kernel_thp.fleet.plugins.module_utils import packages
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.module import Parameters, Result, difference, main
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import Record, Store

ARGUMENTS = {
    "state": {"type": "str", "choices": ["installed", "restored"], "required": True},
    "packages": {"type": "list", "elements": "str", "default": []},
    "repositories": {"type": "list", "elements": "str", "default": []},
    "lock_timeout": {"type": "int", "default": 300},
}


def install(parameters: Parameters, check: bool) -> Result:
    missing = packages.missing(parameters["packages"])
    if check:
        return {**difference([], missing), "added": missing, "removed": []}
    if not parameters["repositories"]:
        raise Problem("repositories is missing", "give what kernel_thp.fleet.repository returned")
    store = Store()
    record = store.need(records.BEGUN, records.INSTALLING, records.INSTALLED, records.ARMED, records.BOOTED)
    if not missing and record["phase"] not in (records.BEGUN, records.INSTALLING):
        return {"changed": False, "added": [], "removed": []}
    cut_off = record["phase"] == records.INSTALLING
    record = store.write(record, phase=records.INSTALLING, **_noted(record, missing, parameters))
    if missing:
        hint, sources = "see /var/log/dnf.log on the host", parameters["repositories"]
        packages.dnf(["install", *missing], parameters["lock_timeout"], hint, sources)
    lacking = packages.missing(parameters["packages"])
    if lacking:
        raise Problem(
            f"dnf says it is done, rpm does not know {', '.join(lacking)}", "see /var/log/dnf.log on the host"
        )
    made = _account(record)
    packages.keep()
    if cut_off and (lost := packages.damaged(made["added"])):
        what = f"an earlier install was cut off and has left {len(lost)} files empty or missing, such as {lost[0]}"
        raise Problem(what, "run the rollout again after the host was rolled back")
    store.write(record, phase=records.INSTALLED, packages=made, packages_before=None, packages_touched=None)
    return {**difference(made["removed"], made["added"]), "changed": bool(missing), **made}


def _noted(record: Record, missing: list[str], parameters: Parameters) -> Record:
    """Return what to record before the transaction, so that it can be undone even after a power failure.

    Others may install packages before, after and during the transaction. So record which packages dnf is going to
    touch; packages_before is only taken at the first attempt.
    """
    patience, sources = parameters["lock_timeout"], parameters["repositories"]
    touched = set(packages.download(missing, patience, sources) if missing else [])
    if record["phase"] == records.INSTALLING:
        return {"packages_touched": sorted(touched | set(record["packages_touched"]))}
    return {"packages_touched": sorted(touched), "packages_before": packages.installed()}


def _account(record: Record) -> dict[str, list[str]]:
    """Return what the rollout added and removed: what an earlier run recorded, and what changed since then."""
    changed = packages.change(record["packages_before"], packages.installed())
    ours = {
        how: [name for name in names if packages.family(name) in record["packages_touched"]]
        for how, names in changed.items()
    }
    return records.together([{"packages": ours}, record])


def restore(parameters: Parameters, check: bool) -> Result:
    store = Store()
    record = store.read() if check else store.need(records.ROLLING_BACK)
    if record is None:
        return {"changed": False, "added": [], "removed": []}
    installed = packages.installed()
    if record["packages_before"] is not None:
        made = _account(record)
        if not check:
            packages.remove_emptied([name for name in made["added"] if name in installed])
            record = store.write(record, packages=made, packages_before=None, packages_touched=None)
    else:
        made = record["packages"]
    to_remove = [name for name in made["added"] if name in installed]
    to_install = [name for name in made["removed"] if name not in installed]
    if not check:
        _remove(packages.alone(to_remove, to_install), parameters["lock_timeout"])
        if to_install:
            packages.dnf(["install", *to_install], parameters["lock_timeout"], "install them by hand")
        packages.keep()
    return {**difference(to_remove, to_install), "added": to_install, "removed": to_remove}


def _remove(names: list[str], lock_timeout: int) -> None:
    if not names:
        return
    others = packages.dependents(names)
    if others:
        what = f"{', '.join(others)} needs what the rollout installed, and would be removed with it"
        raise Problem(what, "remove them by hand, then run rollback.yml again")
    # Dependencies that are no longer needed stay, unless the list names them.
    words = ["--setopt=clean_requirements_on_remove=0", "remove", *names]
    packages.dnf(words, lock_timeout, "see /var/log/dnf.log on the host", offline=True)


def work(parameters: Parameters, check: bool) -> Result:
    return install(parameters, check) if parameters["state"] == "installed" else restore(parameters, check)


if __name__ == "__main__":
    main(ARGUMENTS, work, changes=True)
