"""The journal of a run on the controller, one file for each host, written at once: nothing is lost with the run."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional
from urllib.parse import quote, unquote

from ansible_collections.kernel_thp.fleet.plugins.module_utils import files
from ansible_collections.kernel_thp.fleet.plugins.module_utils.record import now
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import encoding

SCHEMA = 1
RUN, HOSTS, FALLEN, RELEASE, PAGE = "run.json", "hosts", "fallen", "release", "report.html"
MACHINES = "machines"
# What a run has been told, in numbers of hosts and in seconds: see docs/fleet.md.
SETTINGS: Mapping[str, Any] = {"max_failed": 0, "max_lost": 1, "max_unreachable": 0, "pause": 0, "batches": []}
# How a host can end: as intended, or failed.
GOOD = ("done", "unchanged", "undone", "supported", "checked", "ready")
BAD = ("refused", "unreachable", "rolled-back", "failed", "lost", "unsupported")
# Characters; readers of a report want the cause, and Ansible's output has the whole.
LONGEST_REASON = 600
Note = dict[str, Any]
MaybeNote = Optional[Note]


class Journal:
    """The folder of one run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    # The run

    def begin(
        self, name: str, playbook: str, controller: str, planned: Sequence[str], check: bool, **settings: object
    ) -> None:
        """Write the plan of the run."""
        for part in (HOSTS, FALLEN):
            (self.folder / part).mkdir(parents=True, exist_ok=True)
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
                **SETTINGS,
                **settings,
            }
        )
        if not check:
            self._be_latest()

    def _be_latest(self) -> None:
        """Replace the link atomically: other runs do the same. A link of another user stays."""
        part = self.folder / f".latest-{os.getpid()}"
        part.symlink_to(self.folder.name)
        try:
            part.replace(self.folder.parent / "latest")
        except OSError:
            part.unlink()

    def run(self) -> Note:
        return dict(json.loads((self.folder / RUN).read_text()))

    def release(self, wanted: str = "") -> str:
        """Return the release of this run: the first one that any of its hosts settles on, or none yet."""
        path = self.folder / RELEASE
        if wanted and not path.exists():
            self._write_first(path, wanted)
        return files.word(path) or ""

    def same_machine(self, host: str, machine: str) -> str:
        """Return the first host of this run that is this machine, which may be this one."""
        path = self.folder / MACHINES / quote(machine, safe="")
        path.parent.mkdir(exist_ok=True)
        self._write_first(path, host)
        return files.word(path) or host

    def _write_first(self, path: Path, content: str) -> None:
        """Write a file, unless another worker has."""
        part = self.folder / f".first-{os.getpid()}"
        part.write_text(content)
        with contextlib.suppress(FileExistsError):
            os.link(part, path)
        part.unlink()

    def write_run(self, run: Note) -> None:
        files.replace(self.folder / RUN, encoding.form(run))

    # Its hosts

    def _path(self, host: str) -> Path:
        # Names of hosts can hold anything.
        return self.folder / HOSTS / f"{quote(host, safe='')}.json"

    def note(self, host: str) -> MaybeNote:
        content = files.text(self._path(host))
        return None if content is None else dict(json.loads(content))

    def present_step(self, host: str) -> str:
        return _present_step(self._begun(host))

    def notes(self) -> Iterator[Note]:
        for path in sorted((self.folder / HOSTS).glob("*.json")):
            yield dict(json.loads(path.read_text()))

    def unnoted(self, hosts: Iterable[str]) -> list[str]:
        """Return the hosts about which nothing was noted."""
        return [host for host in hosts if not self._path(host).exists()]

    # What keeps others from starting the kernel: a look at it costs as much as there are failures, not hosts

    def fell(self, host: str, how: str, after_all: bool = False) -> None:
        """Note at once that a host failed; how it fell the first time counts, unless this is known `after_all`."""
        path = self.folder / FALLEN / quote(host, safe="")
        with contextlib.suppress(FileExistsError), path.open("w" if after_all else "x") as mark:
            mark.write(how)

    def fallen(self) -> dict[str, str]:
        """Return which hosts failed, and how."""
        return {unquote(path.name): path.read_text() for path in sorted((self.folder / FALLEN).iterdir())}

    def _begun(self, host: str) -> Note:
        """Return the note of a host, or a new one."""
        fresh = {"schema": SCHEMA, "host": host, "began": now(), "steps": [], "facts": {}}
        return self.note(host) or {**fresh, "ended": None, "result": None, "failed": None}

    def step(self, host: str, name: str) -> None:
        """Begin a step; the previous one has passed."""
        note = self._begun(host)
        _end_step(note, True)
        note["steps"].append({"name": name, "began": now(), "ended": None, "ok": None})
        self._write({**note, "ended": None, "result": None})

    def fail(self, host: str, task: str, why: str) -> None:
        """Fail the present step. Only the first failure is reported; later ones are its consequences."""
        note = self._begun(host)
        _end_step(note, False)
        new = {"step": _present_step(note), "task": task, "why": encoding.line(why)[:LONGEST_REASON]}
        self._write({**note, "failed": note["failed"] or new})

    def end(self, host: str, result: str, why: str = "") -> None:
        note = self._begun(host)
        # That of a host that was rolled back is the rollback, which has done what it is for.
        _end_step(note, result in (*GOOD, "rolled-back"))
        if why and note["failed"]:
            note["failed"]["then"] = encoding.line(why)[:LONGEST_REASON]
        self._write({**note, "ended": now(), "result": result})

    def add(self, host: str, facts: Note) -> None:
        """Add facts about a host, for the report."""
        note = self._begun(host)
        self._write({**note, "facts": {**note["facts"], **facts}})

    def _write(self, note: Note) -> None:
        files.replace(self._path(note["host"]), encoding.form(note))


def _present_step(note: Note) -> str:
    return str(note["steps"][-1]["name"]) if note["steps"] else "start"


def _end_step(note: Note, ok: bool) -> None:
    if note["steps"] and note["steps"][-1]["ended"] is None:
        note["steps"][-1].update(ended=now(), ok=ok)
