"""Compile every prefix of the series, with and without what it depends on; a warning is an error.

Only the directories that the series touches are compiled: this proves that each patch builds at its place, the package
build proves that the whole does.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from scripts import lock, series
from scripts.console import BUILD, ROOT, main, run_logged, say, step

WORK = BUILD / "series-check"
SOURCE = WORK / "src"
COMPLETE = ROOT / "SOURCES" / "config" / "kernel-x86_64.config"
VARIANTS = {
    "thp-on": "",
    "thp-off": "# CONFIG_TRANSPARENT_HUGEPAGE is not set\n",
    "memcg-off": "# CONFIG_MEMCG is not set\n",
}


def touched(tree: series.Tree) -> list[str]:
    """Return the directories with C files that the series changes, as make targets."""
    files = tree.git("diff", "--name-only", "base", "HEAD", "--", "*.c").splitlines()
    return sorted({f"{Path(name).parent}/" for name in files if not name.startswith("tools/")} | {"mm/"})


def compile_prefix(variant: str, patch: str, targets: list[str]) -> None:
    out = WORK / variant
    out.mkdir(parents=True, exist_ok=True)
    cc = ["CC=ccache gcc"] if shutil.which("ccache") else []
    make = ["make", "-s", "-C", str(SOURCE), f"O={out}", f"-j{os.cpu_count()}", *cc]
    log, todo = BUILD / "logs" / f"series-check-{variant}.log", "mend the patch in build/tree, then `make refresh`"
    if not (out / ".config").exists():
        (out / ".config").write_text(f"{COMPLETE.read_text()}{VARIANTS[variant]}CONFIG_WERROR=y\n")
    for goals in (["olddefconfig"], ["prepare"], targets):
        run_logged([*make, *goals], log, f"{patch} with {variant}", todo)


def command() -> None:
    patches, tree = series.place(lock.used())
    targets = touched(tree)
    shutil.rmtree(SOURCE, ignore_errors=True)
    tree.git("worktree", "prune")
    tree.git("worktree", "add", "--quiet", "--detach", "--force", str(SOURCE), "base")
    try:
        commits = tree.git("rev-list", "--reverse", "base..HEAD").splitlines()
        for commit, patch in zip(commits, patches.patches()):
            tree.git("checkout", "--quiet", commit, where=SOURCE)
            with step(patch.name):
                for variant in VARIANTS:
                    compile_prefix(variant, patch.name, targets)
    finally:
        tree.git("worktree", "remove", "--force", str(SOURCE))
    say(f"series-check: every prefix compiles ({', '.join(targets)}) with {', '.join(VARIANTS)}")


if __name__ == "__main__":
    main(command)
