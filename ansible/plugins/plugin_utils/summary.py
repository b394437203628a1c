"""A run as one object: all planned hosts, how each ended, and whether the run may continue."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import BAD, GOOD, Note

# Results of hosts without one: the batch is over, the run was killed, the run is running, the run never reached it.
LOST, INTERRUPTED, RUNNING, NOT_REACHED = "lost", "interrupted", "running", "not-reached"
OPEN = (INTERRUPTED, RUNNING, NOT_REACHED)
# States of runs that ended early, whatever the results of their hosts.
CUT_SHORT = ("stopped", "aborted")
SURVEY = "survey"
# What became of a host that runs the kernel of `after` in its report.
ON_NEW = ("done", "unchanged", "supported", "unsupported")
# How many hosts or reasons a message names.
NAMED = 20
# How the reason of a host begins that was kept back because others had failed.
NOT_BEGUN = "not begun, because "
# A number by itself, such as a size, and no part of a version or an address.
NUMBER = re.compile(r"(?<![\w.-])\d+(?![\w.-])")
NO_RESULT = {LOST: "contact was lost in this step", INTERRUPTED: "the run was cut off in this step"}


def brief(note: Note, without_result: str) -> Note:
    """Return a host as the report has it, with `without_result` as its result if it has none."""
    result, failed = note["result"] or without_result, note["failed"]
    if note["result"] is None and without_result in NO_RESULT:
        last = note["steps"][-1]["name"] if note["steps"] else "start"
        failed = failed or {"step": last, "task": "", "why": NO_RESULT[without_result]}
    return {
        "host": note["host"],
        "result": result,
        "failed": failed,
        "began": note["began"],
        "ended": note["ended"],
        "seconds": seconds(note["began"], note["ended"]),
        "steps": [{**step, "seconds": seconds(step["began"], step["ended"])} for step in note["steps"]],
        "facts": note["facts"],
    }


def seconds(began: str, ended: str | None) -> float | None:
    if ended is None:
        return None
    return (datetime.datetime.fromisoformat(ended) - datetime.datetime.fromisoformat(began)).total_seconds()


def whole(run: Note, notes: Iterable[Note]) -> dict[str, Any]:
    """Return the run with all its hosts, including those it never reached."""
    without_result = {"running": RUNNING, "aborted": INTERRUPTED}.get(run["state"], LOST)
    hosts = {note["host"]: brief(note, without_result) for note in notes}
    for name in run["planned"]:
        untouched = {"host": name, "result": None, "failed": None, "began": None, "ended": None}
        hosts.setdefault(name, brief({**untouched, "steps": [], "facts": {}}, NOT_REACHED))
    order = {name: number for number, name in enumerate(run["planned"])}
    listed = sorted(hosts.values(), key=lambda host: (order.get(host["host"], len(order)), host["host"]))
    counts = Counter(host["result"] for host in listed)
    failed = run["state"] in CUT_SHORT or any(result in BAD for result in counts)
    return {**run, "failed": failed, "counts": dict(sorted(counts.items())), "hosts": listed}


def reached(everybody: Sequence[str], left: Collection[str], batch: Collection[str]) -> list[str]:
    """Return the hosts of a play up to the last one of the present batch.

    `left` and `batch` are the hosts of the play and of the batch that Ansible has not dropped. Dropped hosts may follow
    the last one of `batch`. If one of these belongs to the next batch, it was dropped early, and failed as well.
    """
    last = max(number for number, host in enumerate(everybody) if host in batch)
    while last + 1 < len(everybody) and everybody[last + 1] not in left:
        last += 1
    return list(everybody[: last + 1])


def casualties(notes: Iterable[Note]) -> list[Note]:
    """Return the hosts that failed, of those whose batch is over."""
    return [host for host in (brief(note, LOST) for note in notes) if host["result"] in BAD]


def sentence(host: Note) -> str:
    """Say which step of a host failed, why, and how the host ended."""
    failed = host["failed"]
    if failed is None:
        return f"{host['host']}: {host['result']}"
    then = f" ({failed['then']})" if failed.get("then") else ""
    return f"{host['host']}: {host['result']}, {failed['step']} failed: {failed['why']}{then}"


def complaint(count: str, casualties: Sequence[Note]) -> str:
    """Return a count with what happened to each host that failed, if these are not too many to read.

    Those that were kept back are only counted, because they say nothing about the kernel.
    """
    fallen = [host for host in casualties if not _kept_back(host)]
    kept_back = len(casualties) - len(fallen)
    last = [f"and {len(fallen) - NAMED} more, see the report"] if len(fallen) > NAMED else []
    last += [f"{kept_back} of all these were not begun because of that"] if kept_back else []
    return "; ".join([count, *map(sentence, fallen[:NAMED]), *last])


def _kept_back(host: Note) -> bool:
    return bool(host["failed"]) and str(host["failed"]["why"]).startswith(NOT_BEGUN)


def named(hosts: Sequence[str]) -> str:
    """Return the names of hosts, if these are not too many to read."""
    more = len(hosts) - NAMED
    return ", ".join(hosts[:NAMED]) + (f" and {more} more" if more > 0 else "")


def table(run: Mapping[str, Any]) -> str:
    """Return a run that is over as lines for a terminal: hosts, those first that failed, then all reasons and results.

    A survey is about every host. Of other runs with more hosts than a reader wants, it shows those that are not well.
    """
    hosts = sorted(run["hosts"], key=lambda host: host["result"] not in BAD)
    if run["playbook"] != SURVEY and len(hosts) > NAMED:
        hosts = [host for host in hosts if host["result"] not in (*GOOD, NOT_REACHED)]
    results = ", ".join(f"{count} {result}" for result, count in run["counts"].items())
    planned = len(run["hosts"])
    total = f"{planned} host{'s' if planned != 1 else ''}: {results}"
    return "\n".join([*_rows(hosts, run["playbook"]), *_by_reason(run["hosts"]), "", total])


def _rows(hosts: Sequence[Mapping[str, Any]], playbook: str) -> list[str]:
    """Return one line for each host, and for each further reason, without a column that would be empty."""
    rows = [("host", "kernel", "loader", "result", "reasons")]
    for host in hosts:
        why = ["".join(each) for each in _noted(host)] or [""]
        loader = host["facts"].get("loader") or "-"
        rows.append((host["host"], _kernel(host, playbook), loader, host["result"], why[0]))
        rows += [("", "", "", "", each) for each in why[1:]]
    columns = [column for column in zip(*rows) if set(column[1:]) - {"", "-"}]
    widths = [max(map(len, column)) for column in columns]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in zip(*columns)]


def _kernel(host: Mapping[str, Any], playbook: str) -> str:
    """Return the kernel that a host runs, where its result says which of those in the report this is.

    In a rollout, `before` is the record's, and the host may have run another kernel when the run came to it.
    """
    facts, result = host["facts"], host["result"]
    old = facts.get("before", {}) if playbook == SURVEY or result == "rolled-back" else {}
    return (facts.get("after", {}) if result in ON_NEW else old).get("uname") or "-"


def _noted(host: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the reasons and remarks of a host, each after what tells them apart."""
    facts, failed = host["facts"], host["failed"] or {}
    reasons = facts.get("reasons") or filter(None, [failed.get("why"), failed.get("then")])
    return [*(("", reason) for reason in reasons), *(("remark: ", remark) for remark in facts.get("remarks") or [])]


def _by_reason(hosts: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return how many hosts have each reason or remark, whatever its details, as lines, the most frequent first."""
    kinds = ([f"{prefix}{_kind(text)}" for prefix, text in _noted(host)] for host in hosts)
    counts = Counter(kind for each in kinds for kind in dict.fromkeys(each))
    if not counts:
        return []
    lines = [f"{count:5}  {kind}" for kind, count in counts.most_common(NAMED)]
    more = len(counts) - NAMED
    return ["", "hosts  reason", *lines, *([f"and {more} more"] if more > 0 else [])]


def _kind(reason: str) -> str:
    """Return a reason without its details and its hint, and without numbers."""
    return NUMBER.sub("...", re.split("[:;] ", reason, maxsplit=1)[0])


def unready(casualties: Sequence[Note], hosts: int) -> str:
    return f"{len(casualties)} of {hosts} hosts cannot take part: {named([host['host'] for host in casualties])}"


def evaluated(result: Mapping[str, Any], counters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the report says about a host that was evaluated; nothing if that failed."""
    validated = result.get("validate")
    if not validated:
        return {}
    now = counters or result["counters"]
    return {"after": {"uname": validated["kernel"]["uname"], "counters": now, "verdict": validated["verdict"]}}
