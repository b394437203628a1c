"""Delete what was built. Keep the downloaded source, the keys, and commits that are in no patch."""

from __future__ import annotations

import shutil

from scripts import lock, series
from scripts.console import BUILD, UserError, main, say

KEPT = {"gnupg", "secure-boot", "sources"}


def command() -> None:
    if lock.USED.exists():
        _, tree = series.place(lock.used())
        if tree.exists:
            tree.guard()
            if tree.unrefreshed():
                raise UserError(f"{tree.folder} has commits that are in no patch", "`make refresh`, or delete the tree")
    for path in BUILD.iterdir() if BUILD.exists() else []:
        if path.name not in KEPT:
            say(f"clean: {path}")
            shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main(command)
