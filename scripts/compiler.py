"""How kernels are compiled here."""

from __future__ import annotations

import shutil

from scripts.console import ROOT

WRAPPER = ROOT / "scripts" / "ccache.sh"


def cached(compiler: str = "gcc") -> str:
    """Return what kbuild takes as CC: the compiler, behind ccache where that is installed."""
    return f"{WRAPPER} {compiler}" if shutil.which("ccache") else compiler
