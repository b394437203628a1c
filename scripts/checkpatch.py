"""Run the tree's own checkpatch.pl --strict on every patch; types in checkpatch-ignore.txt are left out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from scripts import lock, series
from scripts.console import UserError, main, say

IGNORED = Path(__file__).with_name("checkpatch-ignore.txt")
# Trace headers are written in a language of macros that checkpatch takes for bad C.
TRACE_HEADER = "FILE: include/trace/"
# Where checkpatch sees no git, it does not call spdxcheck.py for new files, which needs Python modules of its own.
WITHOUT_GIT = {"GIT_DIR": "none"}


def ignored() -> list[str]:
    return [line for line in IGNORED.read_text().splitlines() if line and not line.startswith("#")]


def check(tree: Path, patch: Path) -> str:
    """Return checkpatch's output about a patch; it is empty if the patch is clean."""
    command = ["./scripts/checkpatch.pl", "--strict", "--quiet", "--no-summary", "--color=never", "--show-types"]
    done = subprocess.run(
        [*command, f"--ignore={','.join(ignored())}", str(patch.resolve())],
        cwd=tree,
        env={**os.environ, **WITHOUT_GIT},
        capture_output=True,
        text=True,
        check=False,
    )
    output = (done.stdout + done.stderr).strip()
    return "\n\n".join(remark for remark in output.split("\n\n") if TRACE_HEADER not in remark)


def command() -> None:
    patches, tree = series.place(lock.used())
    if not tree.exists:
        raise UserError(f"there is no tree at {tree.folder}", "run `make tree` first")
    output = {patch.name: check(tree.folder, patch) for patch in patches.patches()}
    wrong = "\n".join(f"{name}:\n{text}" for name, text in output.items() if text)
    if wrong:
        raise UserError(f"checkpatch complains:\n{wrong}\n", "fix the patches")
    say(f"checkpatch: {len(output)} patches are clean")


if __name__ == "__main__":
    main(command)
