"""Prometheus' own checker: this machine's, or that of Debian's package, which is only unpacked."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess

from lab import debs
from scripts import distro
from scripts.console import BUILD

UNPACKED = BUILD / "cache" / "promtool"


@functools.cache
def program() -> str | None:
    """Return its path, or None where there is neither the program nor an apt-get to download it."""
    found = shutil.which("promtool")
    if found or not shutil.which("apt-get"):
        return found
    if not UNPACKED.exists():
        with distro.scratch(UNPACKED.with_name(f"prometheus-{os.getpid()}")) as part:
            subprocess.run(["dpkg-deb", "-x", str(debs.package("prometheus")), str(part)], check=True)
            (part / "usr" / "bin" / "promtool").replace(UNPACKED)
    return str(UNPACKED)


def check(what: str, *words: str, text: str = "") -> str:
    """Have it check something, and return what it says; a complaint fails the test."""
    path = program()
    assert path, "there is no promtool here: see program()"
    done = subprocess.run([path, "check", what, *words], input=text, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr
