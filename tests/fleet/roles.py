"""Run the Molecule scenarios of the collection: each role by itself, on a lab host of its own, one after the other.

A scenario that passed is not run again until all have, or until something that it depends on changes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from scripts import collection
from scripts.console import BUILD, ROOT, UserError, main, run_logged, say, step
from tests.fleet import memory

SCENARIOS = collection.SOURCE / "extensions" / "molecule"
OUT = BUILD / "molecule"
TOOLS = Path(sys.executable).parent


def scenarios() -> list[str]:
    return sorted(path.parent.name for path in SCENARIOS.glob("*/molecule.yml"))


def environment() -> dict[str, str]:
    """Return the environment in which Molecule finds the collection, and writes below build/."""
    return {
        "PATH": f"{TOOLS}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "ANSIBLE_COLLECTIONS_PATH": str(collection.link()),
        "ANSIBLE_HOME": str(OUT / "ansible"),
        "ANSIBLE_LOCALHOST_WARNING": "0",
        "NO_COLOR": "1",
    }


def run(name: str) -> None:
    """Run one scenario; its host is stopped in any case."""
    command = [str(TOOLS / "molecule"), "test", "-s", name]
    log = OUT / f"{name}.log"
    with step(f"molecule: {name}"):
        run_logged(command, log, name, "read the log", cwd=collection.SOURCE, env=environment())


def command() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    names = scenarios()
    if not names:
        raise UserError(f"there is no scenario in {SCENARIOS}", "restore it from git")
    stamps = {name: OUT / f"{name}.passed" for name in names}
    for name, stamp in stamps.items():
        wanted = memory.subject(SCENARIOS / name / "converge.yml")
        if stamp.exists() and stamp.read_text() == wanted:
            say(f"molecule: {name}: passed before")
            continue
        run(name)
        stamp.write_text(wanted)
    for stamp in stamps.values():
        stamp.unlink()
    say(f"molecule: {len(names)} scenarios passed, logs in {OUT.relative_to(ROOT)}")


if __name__ == "__main__":
    main(command)
