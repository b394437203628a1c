"""What a run does, written on the controller while it does it, a file for each host: nothing is lost with the run."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Optional
from urllib.parse import quote

from ansible_collections.kernel_thp.fleet.plugins.module_utils import files
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import writable

SCHEMA = 1
RUN, HOSTS, RELEASE, PAGE = "run.json", "hosts", "release", "report.html"
# How a host can end, and whether that is what was wanted.
GOOD = ("done", "unchanged", "undone", "supported", "checked")
BAD = ("refused", "unreachable", "rolled-back", "failed", "lost", "unsupported")
Note = dict[str, Any]
MaybeNote = Optional[Note]


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


class Journal:
    """The folder of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # The run

    def begin(self, name: str, playbook: str, controller: str, planned: Sequence[str], check: bool) -> None:
        """Write down what is to come."""
        (self.folder / HOSTS).mkdir(parents=True, exist_ok=True)
        self.write_run(
            {
                "schema": SCHEMA,
                "run": name,
                "playbook": playbook,
                "controller": controller,
                "check": check,
                "began": now(),
                "ended": None,
                "state": "running",
                "why": None,
                "planned": list(planned),
            }
        )
        if not check:
            self._be_latest()

    def _be_latest(self) -> None:
        """Another run may do so as well, so the link is made aside and put in place; one of another user may stay."""
        part = self.folder / f".latest-{os.getpid()}"
        part.symlink_to(self.folder.name)
        try:
            part.replace(self.folder.parent / "latest")
        except OSError:
            part.unlink()

    def run(self) -> Note:
        return dict(json.loads((self.folder / RUN).read_text()))

    def release(self, wanted: str = "") -> str:
        """Return the release that this run is about: the first that any of its hosts settles on, or none yet."""
        path = self.folder / RELEASE
        if wanted and not path.exists():
            part = self.folder / f".{RELEASE}-{os.getpid()}"
            part.write_text(wanted)
            with contextlib.suppress(FileExistsError):
                os.link(part, path)
            part.unlink()
        return files.word(path) or ""

    def write_run(self, run: Note) -> None:
        files.replace(self.folder / RUN, writable.form(run))

    # Its hosts

    def _path(self, host: str) -> Path:
        # Names of hosts can hold anything.
        return self.folder / HOSTS / f"{quote(host, safe='')}.json"

    def note(self, host: str) -> MaybeNote:
        content = files.text(self._path(host))
        return None if content is None else dict(json.loads(content))

    def notes(self) -> Iterator[Note]:
        for path in sorted((self.folder / HOSTS).glob("*.json")):
            yield dict(json.loads(path.read_text()))

    def _begun(self, host: str) -> Note:
        """Return the note of a host; whatever is the first to be said of it begins one."""
        fresh = {"schema": SCHEMA, "host": host, "began": now(), "steps": [], "facts": {}}
        return self.note(host) or {**fresh, "ended": None, "result": None, "failed": None}

    def step(self, host: str, name: str) -> None:
        """A step begins; the one before it is over, and was good."""
        note = self._begun(host)
        _end_step(note, True)
        note["steps"].append({"name": name, "began": now(), "ended": None, "ok": None})
        self._write({**note, "ended": None, "result": None})

    def fail(self, host: str, task: str, why: str) -> None:
        """The step that is under way fails. The first failure is the one to tell; what follows is its consequence."""
        note = self._begun(host)
        step = note["steps"][-1]["name"] if note["steps"] else "start"
        _end_step(note, False)
        told = note["failed"] or {"step": step, "task": task, "why": writable.line(why)[:600]}
        self._write({**note, "failed": told})

    def end(self, host: str, result: str, why: str = "") -> None:
        note = self._begun(host)
        _end_step(note, result in GOOD)
        if why and note["failed"]:
            note["failed"]["then"] = writable.line(why)[:600]
        self._write({**note, "ended": now(), "result": result})

    def add(self, host: str, facts: Note) -> None:
        """Add what was found out about a host, for the report."""
        note = self._begun(host)
        self._write({**note, "facts": {**note["facts"], **facts}})

    def _write(self, note: Note) -> None:
        files.replace(self._path(note["host"]), writable.form(note))


def _end_step(note: Note, ok: bool) -> None:
    if note["steps"] and note["steps"][-1]["ended"] is None:
        note["steps"][-1].update(ended=now(), ok=ok)
