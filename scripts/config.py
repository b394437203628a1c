"""Make SOURCES/config/kernel-x86_64.config anew from the fragments beside it, in the patched tree."""

from __future__ import annotations

import shutil

from scripts import kconfig, lock, series
from scripts.console import BUILD, ROOT, UserError, main, say

FOLDER = ROOT / "SOURCES" / "config"
COMPLETE = FOLDER / "kernel-x86_64.config"
WORK = BUILD / "config"


def command() -> None:
    _, tree = series.place(lock.used())
    # A copy of its own: what Kconfig leaves behind would be uncommitted work in the tree.
    shutil.rmtree(WORK, ignore_errors=True)
    tree.git("worktree", "prune")
    tree.git("worktree", "add", "--quiet", "--detach", "--force", str(WORK), "HEAD")
    before = kconfig.parse(COMPLETE.read_text()) if COMPLETE.exists() else {}
    try:
        kconfig.generate(WORK, COMPLETE, sorted(FOLDER.glob("[0-9]*.config")))
    except kconfig.ConfigError as error:
        raise UserError(f"the fragments in {FOLDER} ask for what cannot be:\n{error}\n", "mend them") from error
    finally:
        tree.git("worktree", "remove", "--force", str(WORK))
    after = kconfig.parse(COMPLETE.read_text())
    for option in sorted(before.keys() | after.keys()):
        if before.get(option) != after.get(option):
            say(f"  {option}: {before.get(option, 'absent')} -> {after.get(option, 'absent')}")


if __name__ == "__main__":
    main(command)
