"""How many hosts of a run may fail, and whether more have failed by now."""

from __future__ import annotations

import re

from ansible.errors import AnsibleActionFail
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal

# The steps before a host is changed.
BEFORE = ("start", "preflight")
WANTED = "give a number of hosts, such as 2, or a percentage of the run's hosts, such as 5%"


def allowed(given: str, hosts: int) -> int:
    """Return the number for `thp_fleet_max_failed`. A percentage is rounded down, so 5% of ten hosts is none."""
    found = re.fullmatch(r"(\d+)(%?)", given.strip())
    if found is None or (found[2] and int(found[1]) > 100):
        raise AnsibleActionFail(f"thp_fleet_max_failed is {given!r}; {WANTED}")
    return hosts * int(found[1]) // 100 if found[2] else int(found[1])


def exceeded(journal: Journal) -> str | None:
    """Return why no further host may start the new kernel, or None. A failure counts at once, not after its batch.

    A host that was refused says nothing about the kernel, and the others of its batch continue.
    """
    fallen = sorted(note["host"] for note in journal.notes() if note["failed"] and note["failed"]["step"] not in BEFORE)
    most = journal.run()["max_failed"]
    if len(fallen) <= most:
        return None
    return f"not started, because the kernel has failed on {', '.join(fallen)}, and {most} may fail"
