"""The directory of a play's journal: chosen when the play begins, and then the same for all its hosts and batches.

A variable can differ between hosts and change over time, and hosts noted in two directories would not be counted
together. Two plays of one ansible-playbook follow one another; a play that fails ends it, so there is one at a time.
"""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import stat
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail
from ansible_collections.kernel_thp.fleet.plugins.module_utils import files
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils import process
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import Journal

ADVICE = "give another thp_report_directory"


def private() -> Path:
    """Return the temporary directory of this ansible-playbook, which only its workers share."""
    return Path(constants.DEFAULT_LOCAL_TMP)


def _pointer() -> Path:
    return private() / "kernel-thp-run"


def settled() -> Journal | None:
    folder = files.text(_pointer())
    return None if folder is None else Journal(Path(folder))


def leave() -> None:
    """End the play: another one of the same ansible-playbook has a folder of its own."""
    _pointer().unlink()


def settle(directory: Path, check: bool) -> Journal:
    """Create the folder of a play. In check mode nothing is left behind."""
    parent = private() / "kernel-thp-check" if check else trusted(directory)
    parent.mkdir(parents=True, exist_ok=True)
    folder = _make(parent)
    files.replace(_pointer(), str(folder))
    return Journal(folder)


def trusted(directory: Path) -> Path:
    """Return a directory with links resolved; fail if another user could redirect what is written to it."""
    given = directory.expanduser().absolute()
    found = given.resolve()
    for path in (given, *given.parents, found, *found.parents):
        with contextlib.suppress(FileNotFoundError):
            _expect_trusted(path)
    return found


def _expect_trusted(path: Path) -> None:
    """Trust groups that may write, as in a team's shared directory, but not everybody."""
    about = path.lstat()
    whose, everybodys = about.st_uid, path.parent.stat().st_mode & stat.S_IWOTH
    if everybodys and whose not in (0, os.geteuid()):
        raise AnsibleActionFail(f"{path} belongs to user {whose}, in a directory where everybody may write; {ADVICE}")
    if stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX:
        raise AnsibleActionFail(f"everybody may replace what is in {path}; {ADVICE}")


def _make(parent: Path) -> Path:
    """Create a new folder, named after the time, for sorting, and the run."""
    name = f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%dT%H%M%SZ}-{process.this_run()}"
    for number in itertools.count(1):
        folder = parent / (name if number == 1 else f"{name}.{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        break
    return folder
