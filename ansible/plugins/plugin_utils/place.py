"""Where the journal of a play is: settled when the play begins, and then the same for all its hosts and batches.

What a variable says of it can differ from host to host and from one moment to the next, and hosts that were noted in
two places would not be counted together. Two plays of one ansible-playbook are about hosts of their own.
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

ADVICE = "give another report_directory"


def private() -> Path:
    """Return the directory of this ansible-playbook: its workers share it, nobody else has it, it goes with it."""
    return Path(constants.DEFAULT_LOCAL_TMP)


def _told(play: str) -> Path:
    return private() / f"kernel-thp-{play}"


def settled(play: str) -> Journal | None:
    folder = files.text(_told(play))
    return None if folder is None else Journal(Path(folder))


def settle(play: str, directory: Path, check: bool) -> Journal:
    """Make the folder of a play. In check mode nothing is left in the reports' directory, or anywhere else."""
    parent = private() / "kernel-thp-check" if check else trusted(directory)
    parent.mkdir(parents=True, exist_ok=True)
    folder = _make(parent)
    files.replace(_told(play), str(folder))
    return Journal(folder)


def trusted(directory: Path) -> Path:
    """Return a directory without links in its name, unless somebody else may lead what is written in it elsewhere."""
    given = directory.expanduser().absolute()
    found = given.resolve()
    for path in (given, *given.parents, found, *found.parents):
        with contextlib.suppress(FileNotFoundError):
            _expect_trusted(path)
    return found


def _expect_trusted(path: Path) -> None:
    """Groups that may write are trusted, as in a directory that a team shares; everybody is not."""
    about = path.lstat()
    whose, everybodys = about.st_uid, path.parent.stat().st_mode & stat.S_IWOTH
    if everybodys and whose not in (0, os.geteuid()):
        raise AnsibleActionFail(f"{path} belongs to user {whose}, where everybody may put something; {ADVICE}")
    if stat.S_ISDIR(about.st_mode) and about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX:
        raise AnsibleActionFail(f"everybody may replace what is in {path}; {ADVICE}")


def _make(parent: Path) -> Path:
    """Make a folder that was not there. Its name is that of the run, after the time, by which they are listed."""
    name = f"{datetime.datetime.now(datetime.timezone.utc):%Y%m%dT%H%M%SZ}-{process.this_run()}"
    for number in itertools.count(1):
        folder = parent / (name if number == 1 else f"{name}.{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        break
    return folder
