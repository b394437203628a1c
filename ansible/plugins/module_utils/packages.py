"""Packages by dnf's and rpm's own commands: the same with dnf 4 and 5, and exact where Ansible's module is not.

That module takes a second release of an install-only package for "nothing to do", and stumbles over what plugins print.
"""

from __future__ import annotations

import contextlib
import fcntl
import platform
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, files, holder
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

# A key that became trusted is no package, and dnf does not handle it as one.
KEY = "gpg-pubkey-"
NEVRA = "%{NEVRA}\\n"
# What dnf 4 ends with when another one is at work and it was told not to wait without end.
LOCKED = 200
PID_FILES = ("var/cache/dnf", "var/lib/dnf")
POLL = 2.0
# What comes first of a line in its table of a transaction, and how it says what such a package replaces: dnf 4 and 5 do
# not wrap lines at the same place, nor in the middle of a name.
TOUCHED = r"(\S+)\s+({machine}|noarch|i[3-6]86)\s"
REPLACED = r"replacing\s+(\S+\.({machine}|noarch|i[3-6]86))\s"
LEFT_OUT = "Skipping packages"
# The lines of dnf's output that say what is wrong; not a heading, and not the settings it lists after some errors.
REASON = re.compile(r"^(Error: .|Problem:|- )|FAILED|Public key for|do not have any GPG public keys")


def installed() -> list[str]:
    """Return every installed package, by name, version, release and architecture."""
    names = command.said(["rpm", "-qa", "--qf", NEVRA]).split()
    return sorted(name for name in names if not name.startswith(KEY))


def missing(wanted: Sequence[str]) -> list[str]:
    return [name for name in wanted if command.run(["rpm", "-q", "--quiet", name]).code != 0]


def provided(capability: str) -> bool:
    return command.run(["rpm", "-q", "--quiet", "--whatprovides", capability]).code == 0


def busy(root: Path = Path("/")) -> str | None:
    """Return who is in the middle of a transaction: the pid that dnf noted, or the lock that rpm holds."""
    for folder in PID_FILES:
        for path in sorted((root / folder).glob("*_lock.pid")):
            pid = files.word(path) or ""
            if pid.isdecimal() and (root / "proc" / pid).exists():
                called = files.text(root / "proc" / pid / "cmdline") or ""
                return f"pid {pid} ({called.replace(chr(0), ' ').strip()[:80]})"
    database = command.run(["rpm", "--eval", "%{_dbpath}"]).out.strip() or "/var/lib/rpm"
    with contextlib.suppress(FileNotFoundError), (root / database.lstrip("/") / ".rpm.lock").open("r+") as lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return "a process that holds rpm's lock"
    return None


def wait_idle(timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while (who := busy()) is not None:
        if time.monotonic() > deadline:
            raise Problem(f"another package transaction is running: {who}", "let it end, or see what it waits for")
        time.sleep(POLL)


def dnf(words: Sequence[str], lock_timeout: float, todo: str) -> str:
    """Run dnf to its end, however long that takes: a transaction must not be cut off. Only waiting has a limit.

    Signatures are checked whatever the host's own configuration says, and no old kernel makes room for a new one. The
    module may be cut off all the same, with its connection: the step that it was goes on until dnf is through.
    """
    options = ["-y", "--setopt=gpgcheck=1", "--setopt=*.gpgcheck=1", "--setopt=installonly_limit=0"]
    if not _is_dnf5():
        options.append("--setopt=exit_on_lock=1")
    deadline = time.monotonic() + lock_timeout
    while True:
        wait_idle(max(0.0, deadline - time.monotonic()))
        done = command.run(["dnf", *options, *words], timeout=None, descriptors=holder.step_under_way())
        if done.code != LOCKED or time.monotonic() > deadline:
            break
        time.sleep(POLL)
    if done.code != 0:
        raise Problem(f"dnf {_verb(words)} ended with {done.code}: {reason(done.out, done.err)}", todo)
    return done.out


def _verb(words: Sequence[str]) -> str:
    return next(word for word in words if not word.startswith("-"))


def _is_dnf5() -> bool:
    """Say which one has the name `dnf`. That is seen at once; asked for its version, dnf 4 starts as for any work."""
    return Path(shutil.which("dnf") or "dnf").resolve().name == "dnf5"


def reason(out: str, err: str) -> str:
    """Return what dnf says went wrong: its errors, not the progress bars before or the advice after them."""
    lines = [line.strip() for line in (err + out).splitlines() if line.strip()]
    said = [line for line in lines if REASON.search(line)] or lines[-2:]
    return " / ".join(dict.fromkeys(said[:3]))[:400] or "it said nothing"


def family(nevra: str) -> str:
    """Return name and architecture of a package, which stay the same when it is replaced by another version."""
    name, _, arch = nevra.rpartition(".")
    return f"{name.rsplit('-', 2)[0]}.{arch}"


def touched(said: str, machine: str) -> list[str]:
    """Return the families of the packages that a transaction installs or replaces, from what dnf says of it."""
    table = said.partition(LEFT_OUT)[0]
    found = {f"{name}.{arch}" for name, arch in re.findall(TOUCHED.format(machine=machine), table)}
    return sorted(found | {name for name, _ in re.findall(REPLACED.format(machine=machine), table)})


def download(wanted: Sequence[str], lock_timeout: float) -> list[str]:
    """Have dnf fetch all that an install needs and check every signature. Return the families of what it touches."""
    words = ["install", "--downloadonly", *wanted]
    said = dnf(words, lock_timeout, "look at the packages' signatures and dependencies")
    found = touched(said, platform.machine())
    unseen = [name for name in wanted if family(name) not in found]
    if unseen:
        # What the rollout adds could not be told from what others do meanwhile.
        what = f"what dnf says of its transaction does not name {', '.join(unseen)}"
        raise Problem(what, "see whether debuglevel in /etc/dnf/dnf.conf keeps it from saying that")
    return found


def change(before: Sequence[str], after: Sequence[str]) -> dict[str, list[str]]:
    return {"added": sorted(set(after) - set(before)), "removed": sorted(set(before) - set(after))}


def alone(to_remove: Sequence[str], to_install: Sequence[str]) -> list[str]:
    """Return what has to be removed by itself. Of the others an older version takes the place.

    What others need would else have to go in between.
    """
    replaced = {family(name) for name in to_install}
    return [name for name in to_remove if family(name) not in replaced]


def dependents(names: Sequence[str]) -> list[str]:
    """Return what is installed and needs one of these, but is none of them: dnf would remove it, too."""
    if not names:
        return []
    asked = ["dnf", "-q", "--disablerepo=*", "repoquery", "--installed", "--qf", "%{name}-%{evr}.%{arch}\\n"]
    found = command.said([*asked, "--whatrequires", ",".join(names)]).split()
    return sorted(set(found) - set(names))
