"""The settings of transparent huge pages: read all of them, and restore them one by one."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import files
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

FOLDER = "sys/kernel/mm/transparent_hugepage"
CHOSEN = re.compile(r"\[(\S+)\]")


def value(content: str) -> str:
    """Return the value in effect: the word in brackets, if a file lists its choices."""
    match = CHOSEN.search(content)
    return match.group(1) if match else content.strip()


def read(root: Path = Path("/")) -> dict[str, str]:
    """Return every writable setting; a kernel without huge pages has none."""
    folder = root / FOLDER
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) or not mode & stat.S_IWUSR:
            continue
        content = files.text(path)
        if content is not None:
            found[str(path.relative_to(folder))] = value(content)
    return found


def different(wanted: dict[str, str], root: Path = Path("/")) -> dict[str, str]:
    """Return the settings of the running kernel that differ from the wanted ones."""
    now = read(root)
    return {name: now[name] for name, text in wanted.items() if name in now and now[name] != text}


def restore(wanted: dict[str, str], root: Path = Path("/")) -> None:
    """Write only what differs: any write can make the kernel log something."""
    for name in different(wanted, root):
        try:
            (root / FOLDER / name).write_text(wanted[name])
        except OSError as error:
            what = f"transparent_hugepage/{name} does not accept `{wanted[name]}`: {error.strerror}"
            raise Problem(what, "write it by hand") from None
