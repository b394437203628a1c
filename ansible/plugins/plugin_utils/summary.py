"""A run as one object: all planned hosts, how each ended, and whether the run may continue."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import BAD, Note

# Results of hosts without one: the batch is over, the run was killed, the run is running, the run never reached it.
LOST, INTERRUPTED, RUNNING, NOT_REACHED = "lost", "interrupted", "running", "not-reached"
OPEN = (INTERRUPTED, RUNNING, NOT_REACHED)
# States of runs that ended early, whatever the results of their hosts.
CUT_SHORT = ("stopped", "aborted")
# How many hosts a message names.
NAMED = 20
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
        hosts.setdefault(name, _untouched(name))
    order = {name: number for number, name in enumerate(run["planned"])}
    listed = sorted(hosts.values(), key=lambda host: (order.get(host["host"], len(order)), host["host"]))
    counts: dict[str, int] = {}
    for host in listed:
        counts[host["result"]] = counts.get(host["result"], 0) + 1
    failed = run["state"] in CUT_SHORT or any(result in BAD for result in counts)
    return {**run, "failed": failed, "counts": dict(sorted(counts.items())), "hosts": listed}


def _untouched(name: str) -> dict[str, Any]:
    return {
        "host": name,
        "result": NOT_REACHED,
        "failed": None,
        "began": None,
        "ended": None,
        "seconds": None,
        "steps": [],
        "facts": {},
    }


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
    """Return a count with what happened to each host, if these are not too many to read."""
    more = len(casualties) - NAMED
    rest = [f"and {more} more, see the report"] if more > 0 else []
    return "; ".join([count, *(sentence(host) for host in casualties[:NAMED]), *rest])


def table(hosts: Sequence[Mapping[str, Any]]) -> str:
    """Return the hosts of a survey as lines for a terminal, those first that cannot take part."""
    rows = [("host", "kernel", "loader", "verdict", "reasons")]
    for host in sorted(hosts, key=lambda host: host["result"] not in BAD):
        facts, failed = host["facts"], host["failed"] or {}
        why = facts.get("reasons") or [failed.get("why", "")]
        kernel = facts.get("before", {}).get("uname") or "-"
        rows.append((host["host"], kernel, facts.get("loader") or "-", host["result"], why[0]))
        rows += [("", "", "", "", reason) for reason in why[1:]]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join("  ".join([*map(str.ljust, row, widths), row[4]]).rstrip() for row in rows)


def unready(casualties: Sequence[Note], hosts: int) -> str:
    return f"{len(casualties)} of {hosts} hosts cannot take part: {', '.join(host['host'] for host in casualties)}"


def evaluated(result: Mapping[str, Any], counters: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return what the report says about a host that was evaluated; nothing if that failed."""
    validated = result.get("validate")
    if not validated:
        return {}
    now = counters or result["counters"]
    return {"after": {"uname": validated["kernel"]["uname"], "counters": now, "verdict": validated["verdict"]}}
