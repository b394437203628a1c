"""Have Python on a simulated host believe that the host's kernel runs; it is loaded by itself when Python starts."""

from __future__ import annotations

import os
from pathlib import Path

UNAME = Path("/opt/simulated/uname")


def told() -> os.uname_result:
    real = _real()
    return os.uname_result((real.sysname, real.nodename, UNAME.read_text(), real.version, real.machine))


if UNAME.exists():
    _real, os.uname = os.uname, told
