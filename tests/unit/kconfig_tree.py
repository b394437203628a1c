"""The part of the patched kernel tree that Kconfig reads."""

from __future__ import annotations

import shutil
from pathlib import Path

from scripts import lock, series

READ = (
    *("Makefile", "*Kconfig*", "scripts", "arch/x86/configs"),
    *("arch/x86/Makefile*", "*/Makefile.compiler", "*.include"),
)


def copy(folder: Path) -> Path:
    """Copy it into a folder, where Kconfig may write, and return the folder."""
    _, patched = series.place(lock.used())
    for name in patched.git("ls-files", "--", *READ).splitlines():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(patched.folder / name, folder / name, follow_symlinks=False)
    return folder
