"""Run the tests that play the collection's playbooks with each release of ansible-core that meta/runtime.yml admits.

Each release has a virtual environment of its own, made once in build/ansible. A release for which this machine has no
Python is named and left out: PATH says which there are.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from dataclasses import dataclass

from scripts.console import BUILD, ROOT, UserError, main, run_logged, say, step
from scripts.deps import REQUIREMENTS

FOLDER = BUILD / "ansible"
# What these tests need beside ansible-core, with the versions of build/venv.
TOOLS = ("jsonschema", "pytest", "pytest-xdist")
# How a test calls Ansible: by the fixture, or as a library.
USES = re.compile(r"ansible: Mapping|^from ansible\.", re.MULTILINE)


@dataclass(frozen=True)
class Release:
    """`pythons` are the minor versions, the first and the last, of the Python 3 that it runs on."""

    version: str
    pythons: tuple[int, int]

    @property
    def name(self) -> str:
        return self.version.rpartition(".")[0]

    def python(self) -> str | None:
        """Return a Python for it. That of pyenv is on PATH even where it is not chosen, and then does not run."""
        first, last = self.pythons
        for name in ("python3", *(f"python3.{minor}" for minor in range(last, first - 1, -1))):
            words = [name, "-c", f"import sys; sys.exit(not {first} <= sys.version_info[1] <= {last})"]
            if shutil.which(name) and subprocess.run(words, capture_output=True).returncode == 0:
                return name
        return None


# The oldest one is that of the Ansible Automation Platform.
RELEASES = (
    Release("2.16.19", (10, 12)),
    Release("2.17.14", (10, 12)),
    Release("2.18.19", (11, 13)),
    Release("2.19.14", (11, 13)),
    Release("2.20.10", (12, 14)),
    Release("2.21.5", (12, 14)),
)


def tests() -> list[str]:
    paths = sorted((ROOT / "tests" / "unit").glob("test_fleet_*.py"))
    return [str(path.relative_to(ROOT)) for path in paths if USES.search(path.read_text())]


def prepare(release: Release, python: str) -> str:
    """Make the virtual environment unless it is there, and return its Python."""
    venv, log = FOLDER / release.name, BUILD / "logs" / f"ansible-{release.name}.log"
    pins = [line for line in REQUIREMENTS.read_text().splitlines() if line.partition("==")[0] in TOOLS]
    wanted, stamp = "\n".join([f"ansible-core=={release.version}", *pins]), venv / "requirements"
    if not stamp.exists() or stamp.read_text() != wanted:
        run_logged([python, "-m", "venv", "--clear", str(venv)], log, "venv", "install Python's venv module")
        pip = [str(venv / "bin" / "pip"), "install", "--quiet", "--disable-pip-version-check", *wanted.split()]
        run_logged(pip, log, "pip", "check the network, then run this again")
        stamp.write_text(wanted)
    return str(venv / "bin" / "python")


def run(release: Release) -> bool:
    """Run the tests; say whether this machine can."""
    python = release.python()
    if python is None:
        first, last = release.pythons
        say(f"ansible-core {release.version}: not run, because it needs a Python from 3.{first} to 3.{last} on PATH")
        return False
    with step(f"ansible-core {release.version}"):
        # The linter has its own release of ansible-core.
        words = [prepare(release, python), "-m", "pytest", "-q", "-n", "2", "-k", "not lint", *tests()]
        log = BUILD / "logs" / f"collection-{release.name}.log"
        run_logged(words, log, f"ansible-core {release.version}", "read the log", cwd=ROOT)
    return True


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", metavar="RELEASE", choices=[release.name for release in RELEASES])
    only = parser.parse_args().only
    chosen = [release for release in RELEASES if only in (None, release.name)]
    passed = [release.name for release in chosen if run(release)]
    if not passed:
        raise UserError("no release of ansible-core was tested", "install a Python that one of them runs on")
    say(f"collection: passed with ansible-core {', '.join(passed)}")


if __name__ == "__main__":
    main(command)
