"""Make os.uname() on a simulated host return the host's kernel. Python imports this file when it starts."""

from __future__ import annotations

import os
from pathlib import Path

UNAME = Path("/opt/simulated/uname")


def simulated() -> os.uname_result:
    real = _real()
    return os.uname_result((real.sysname, real.nodename, UNAME.read_text(), real.version, real.machine))


if UNAME.exists():
    _real, os.uname = os.uname, simulated
