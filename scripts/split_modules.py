"""Divide the installed kernel modules between the -core and the -modules package, as rpm file lists.

This file is a source of the package, where nothing else of the project is at hand: it uses the standard library only.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

SUFFIX = re.compile(r"\.ko(\.\w+)?$")


def dependencies(modules_dep: str) -> dict[str, list[str]]:
    """Return module -> modules it needs, from depmod's own file."""
    lines = (line.partition(":") for line in modules_dep.splitlines())
    return {module: needed.split() for module, _, needed in lines}


def split(needs: dict[str, list[str]], wanted: list[str], any_config: bool = False) -> tuple[set[str], set[str]]:
    """Return the modules of -core, closed under dependency, and the others.

    What is wanted and not there is an error, unless its line names a flavour, or the configuration is any other than
    the one the list was made for.
    """
    core: set[str] = set()
    for line in wanted:
        entry, _, flavour = line.partition(" ")
        chosen = {
            module for module in needs if f"kernel/{entry}/" in module or SUFFIX.sub("", module) == f"kernel/{entry}"
        }
        if not chosen and not flavour and not any_config:
            sys.exit(
                f"error: core-modules.txt names {entry}, but this build has no module there; remove the line, or name "
                "the flavour it is for behind it"
            )
        core |= chosen
    # modules.dep lists indirect dependencies as well, so one pass closes the set.
    core |= {needed for module in core for needed in needs[module]}
    return core, set(needs) - core


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("root", type=Path, help="build root of the package")
    parser.add_argument("directory", type=Path, help="module directory inside it, as installed")
    parser.add_argument("wanted", type=Path, help="core-modules.txt")
    parser.add_argument("core", type=Path, help="file list to write for -core")
    parser.add_argument("modules", type=Path, help="file list to write for -modules")
    parser.add_argument("--any-config", action="store_true", help="pass over lines that name nothing in this build")
    given = parser.parse_args()

    installed = given.root / given.directory.relative_to("/")
    text = given.wanted.read_text().splitlines()
    wanted = [line for line in text if line and not line.startswith("#")]
    core, others = split(dependencies((installed / "modules.dep").read_text()), wanted, given.any_config)
    folders = sorted(path.relative_to(installed) for path in (installed / "kernel").rglob("*") if path.is_dir())
    owned = ["kernel", *map(str, folders)]
    given.core.write_text(
        "".join(f"%dir {given.directory}/{name}\n" for name in owned)
        + "".join(f"{given.directory}/{name}\n" for name in sorted(core))
    )
    given.modules.write_text("".join(f"{given.directory}/{name}\n" for name in sorted(others)))


if __name__ == "__main__":
    main()
