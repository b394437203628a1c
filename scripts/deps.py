"""Install what this host lacks: system packages by apt or dnf, Python tools into build/venv."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.console import BUILD, ROOT, UserError, main, run_logged, say

LISTS = Path(__file__).resolve().parent / "packages"
REQUIREMENTS = ROOT / "requirements-dev.txt"
VENV = BUILD / "venv"


def listed(name: str) -> list[str]:
    lines = (LISTS / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def missing_debs() -> list[str]:
    done = subprocess.run(
        ["dpkg-query", "--show", "--showformat=${Package} ${db:Status-Status}\n"],
        check=True,
        capture_output=True,
        text=True,
    )
    installed = {line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")}
    return [name for name in listed("debian.txt") if name not in installed]


def missing_rpms() -> list[str]:
    return [name for name in listed("fedora.txt") if subprocess.run(["rpm", "-q", "--quiet", name]).returncode != 0]


def apt_has_lists() -> bool:
    """Return whether apt has its package lists, which the build of the image reads."""
    done = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(FILENAME)"], capture_output=True, text=True, check=True
    )
    return bool(done.stdout.strip())


def install(missing: list[str], command: list[str], update: list[str] | None) -> None:
    what = " ".join(missing) or "package lists"
    if os.geteuid() != 0:
        raise UserError(f"this host lacks: {what}", f"run as root: {' '.join([*command, *missing])}")
    say(f"deps: installing {what}")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    hint = "fix what the package manager reports, then run `make deps` again"
    if update:
        run_logged(update, BUILD / "logs" / "deps-update.log", update[0], hint, env=env)
    if missing:
        run_logged([*command, *missing], BUILD / "logs" / "deps.log", command[0], hint, env=env)


def system() -> None:
    if shutil.which("dpkg-query") and shutil.which("apt-get"):
        missing = missing_debs()
        if missing or not apt_has_lists():
            install(missing, ["apt-get", "install", "-y", "--no-install-recommends"], ["apt-get", "update"])
    elif shutil.which("dnf"):
        missing = missing_rpms()
        if missing:
            install(missing, ["dnf", "install", "-y"], None)
    else:
        raise UserError("this host has neither apt nor dnf", f"install the packages in {LISTS} by hand")


def python_tools() -> None:
    """Make the virtual environment again if the pinned list or the interpreter changed."""
    wanted = f"{sys.version}\n{REQUIREMENTS.read_text()}"
    stamp = VENV / "requirements"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say(f"deps: Python tools into {VENV}")
    shutil.rmtree(VENV, ignore_errors=True)
    log = BUILD / "logs" / "deps-python.log"
    run_logged([sys.executable, "-m", "venv", str(VENV)], log, "venv", "install Python's venv module")
    pip = [str(VENV / "bin" / "pip"), "install", "--disable-pip-version-check", "-r", str(REQUIREMENTS)]
    run_logged(pip, log, "pip", "check the network, then run `make deps` again")
    stamp.write_text(wanted)


def command() -> None:
    system()
    python_tools()
    say("deps: nothing is missing")


if __name__ == "__main__":
    main(command)
