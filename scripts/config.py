"""Make the complete configurations in SOURCES/config/ anew from the fragments beside them, in the patched tree.

With --base FILE, nothing is written: FILE, a distribution's own configuration, is tried as the base of the package.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts import kconfig, lock, series
from scripts.console import BUILD, ROOT, UserError, main, say

FOLDER = ROOT / "SOURCES" / "config"
COMPLETE = FOLDER / "kernel-x86_64.config"
COMPLETE_DEBUG = FOLDER / "kernel-x86_64-debug.config"
REQUIRED = FOLDER / "required.config"
DEBUG = FOLDER / "debug.config"
FRAGMENTS = [*sorted(FOLDER.glob("[0-9]*.config")), REQUIRED]
# All of the variant that makes sense on a distribution's own configuration.
OURS = [FOLDER / "10-variant-identity.config", FOLDER / "20-thp.config", REQUIRED]
WORK = BUILD / "config"


@contextmanager
def patched_tree() -> Iterator[Path]:
    """Give a copy of the patched tree: what Kconfig leaves behind would be uncommitted work in the tree itself."""
    _, tree = series.place(lock.used())
    shutil.rmtree(WORK, ignore_errors=True)
    tree.git("worktree", "prune")
    tree.git("worktree", "add", "--quiet", "--detach", "--force", str(WORK), "HEAD")
    try:
        yield WORK
    finally:
        tree.git("worktree", "remove", "--force", str(WORK))


def renew(tree: Path, complete: Path, base: list[Path], fragments: list[Path]) -> None:
    """Write one complete configuration, and show what changed in it."""
    before = kconfig.parse(complete.read_text()) if complete.exists() else {}
    try:
        kconfig.generate(tree, complete, base, fragments)
    except kconfig.ConfigError as error:
        raise UserError(f"the fragments in {FOLDER} ask for what cannot be:\n{error}\n", "mend them") from error
    after = kconfig.parse(complete.read_text())
    changed = [option for option in sorted(before.keys() | after.keys()) if before.get(option) != after.get(option)]
    say(f"config: {complete.name}, {len(changed)} options changed")
    for option in changed:
        say(f"  {option}: {before.get(option, 'absent')} -> {after.get(option, 'absent')}")


def base_file(path: Path) -> Path:
    """Return the absolute path of a distribution's configuration that was named by the user."""
    try:
        return kconfig.foreign(path.resolve())
    except kconfig.ConfigError as error:
        todo = "give a kernel's configuration, such as BASE_CONFIG=/boot/config-VERSION"
        raise UserError(f"no base to build on: {error}", todo) from None


def try_base(tree: Path, base: Path) -> None:
    """Lay the fragments over a distribution's configuration, and show which of its answers change."""
    try:
        kconfig.merge(tree, [base], OURS)
    except kconfig.ConfigError as error:
        for line in str(error).splitlines():
            say(f"  {line}")
        raise UserError(f"{base} cannot be the base: see above", "give another configuration, or change it") from None
    theirs, made = (kconfig.parse(path.read_text()) for path in (base, tree / ".config"))
    changed = [option for option in sorted(theirs) if theirs[option] != made.get(option, "n")]
    for option in changed:
        say(f"  {option}: {theirs[option]} -> {made.get(option, 'n')}")
    say(f"config: {base} can be the base; {len(changed)} of its {len(theirs)} answers change")


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--base", type=Path, metavar="FILE", help="only try FILE as the base of the package")
    base = parser.parse_args().base
    if base:
        base = base_file(base)
    with patched_tree() as tree:
        if base:
            try_base(tree, base)
        else:
            renew(tree, COMPLETE, [], FRAGMENTS)
            renew(tree, COMPLETE_DEBUG, FRAGMENTS, [DEBUG, REQUIRED])


if __name__ == "__main__":
    main(command)
