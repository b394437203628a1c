"""The report of a run, made from its journal: report.json, junit.xml and the page. It is rewritten during the run."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.kernel_thp.fleet.plugins.module_utils import files
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import now
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import encoding, journal, junit, page, process, summary
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal, Note

REPORT, JUNIT = "report.json", "junit.xml"
# Wait this many times the cost of a report before the next one, so that reports hardly slow the run.
IDLE = 50.0


def write(found: Journal, notes: Iterable[Note] | None = None) -> dict[str, Any]:
    """Write report.json, junit.xml and report.html, each atomically; `notes` saves reading the journal."""
    return _write(found, found.run(), notes)


def _write(found: Journal, run: Note, notes: Iterable[Note] | None) -> dict[str, Any]:
    whole = summary.whole(run, found.notes() if notes is None else notes)
    files.replace(found.folder / REPORT, encoding.form(whole))
    files.replace(found.folder / JUNIT, encoding.text(junit.render(whole)))
    files.replace(found.folder / journal.PAGE, encoding.text(page.render(whole)))
    return whole


def refresh(found: Journal) -> None:
    """Update the report if possible: a problem with it is not a failure of a host."""
    try:
        _refresh(found)
    except Exception as error:
        Display().warning(f"the report in {found.folder} is not up to date: {error}")


def _refresh(found: Journal) -> None:
    """Update it, unless that happened a short time ago or another worker is doing it."""
    stamp = found.folder / ".refreshed"
    with (found.folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        cost, at = _stamp(stamp)
        if time.time() - at < cost * IDLE:
            return
        began = time.monotonic()
        write(found)
        stamp.write_text(f"{time.monotonic() - began:.4f} {time.time():.3f}\n")


def _stamp(path: Path) -> tuple[float, float]:
    with contextlib.suppress(OSError, ValueError):
        cost, at = path.read_text().split()
        return float(cost), float(at)
    return 0.0, 0.0


def finish(found: Journal, state: str, why: str | None = None, notes: Iterable[Note] | None = None) -> dict[str, Any]:
    """End the run: finished, stopped by its verdict, or aborted from outside."""
    run = found.run()
    if run["state"] == "running":
        run = {**run, "state": state, "why": why, "ended": now()}
    whole = _write(found, run, notes)
    # Last: the next run writes the reports of all runs that are not over, including one that failed here.
    found.write_run(run)
    return whole


def finish_dead(folder: Path) -> list[str]:
    """Write the reports of runs that were killed, and return their folders.

    Runs of other machines and users are left alone, and so is anything that is no journal.
    """
    names = []
    for path in sorted(folder.glob(f"*/{journal.RUN}")):
        found = Journal(path.parent)
        # Whatever is wrong with an old run, such as a journal of another version: the one that begins is not.
        with contextlib.suppress(Exception):
            if _ours(path.parent) and _is_dead(found.run()):
                finish(found, "aborted", "it ended without a verdict: killed, or no host of a batch was left")
                names.append(path.parent.name)
    return names


def _ours(folder: Path) -> bool:
    return not folder.is_symlink() and folder.stat().st_uid == os.geteuid()


def _is_dead(run: Note) -> bool:
    return run["state"] == "running" and process.gone(run["run"], run["controller"])
