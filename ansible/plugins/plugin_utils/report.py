"""The report of a run, from its journal: run.json's whole form, and the page. Made anew while the run is under way."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path
from typing import Any

from ansible.utils.display import Display
from ansible_collections.kernel_thp.fleet.plugins.module_utils import files
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import journal, page, process, summary, writable
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal, Note

REPORT = "report.json"
# With this many times what it costs between two of them, a report costs a run next to nothing.
IDLE = 50.0


def write(found: Journal) -> dict[str, Any]:
    """Write report.json and report.html, each whole."""
    return _write(found, found.run())


def _write(found: Journal, run: Note) -> dict[str, Any]:
    whole = summary.whole(run, found.notes())
    files.replace(found.folder / REPORT, writable.form(whole))
    files.replace(found.folder / journal.PAGE, writable.text(page.render(whole)))
    return whole


def refresh(found: Journal) -> None:
    """Bring the report up to date, if that can be done: nothing that is wrong with it is a failure of a host."""
    try:
        _refresh(found)
    except Exception as error:
        Display().warning(f"the report in {found.folder} is not up to date: {error}")


def _refresh(found: Journal) -> None:
    """Do so unless that was done a short time ago, or another worker is at it."""
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


def finish(found: Journal, state: str, why: str | None = None) -> dict[str, Any]:
    """The run is over: finished, stopped by its verdict, or aborted from outside."""
    run = found.run()
    if run["state"] == "running":
        run = {**run, "state": state, "why": why, "ended": journal.now()}
    whole = _write(found, run)
    # Last, as the next run makes the reports of those that are not over: also one that could not be written now.
    found.write_run(run)
    return whole


def finish_dead(folder: Path) -> list[str]:
    """Give runs that were killed their report, and return their folders.

    Those of other machines and of other users are left alone, and what is no journal.
    """
    names = []
    for path in sorted(folder.glob(f"*/{journal.RUN}")):
        found = Journal(path.parent)
        with contextlib.suppress(OSError, ValueError, KeyError):
            if _ours(path.parent) and _is_dead(found.run()):
                finish(found, "aborted", "it ended without a verdict: killed, or no host of a batch was left")
                names.append(path.parent.name)
    return names


def _ours(folder: Path) -> bool:
    return not folder.is_symlink() and folder.stat().st_uid == os.geteuid()


def _is_dead(run: Note) -> bool:
    return run["state"] == "running" and process.gone(run["run"], run["controller"])
