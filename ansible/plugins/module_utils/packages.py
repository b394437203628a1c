"""Packages, with dnf's and rpm's own commands: they work the same with dnf 4 and 5.

The Python interfaces of dnf 4 and 5 have nothing in common, and exist for the system's Python only, which need not be
the one that runs modules. Ansible's module reports "nothing to do" for a second release of an install-only package, and
fails on the output of dnf's plugins.
"""

from __future__ import annotations

import contextlib
import fcntl
import platform
import re
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, files, held, holder, trust
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem, without_passwords

ROOT = Path("/")
# rpm lists trusted keys as packages; dnf does not handle them.
KEY = "gpg-pubkey-"
NEVRA = "%{NEVRA}\\n"
# The exit code of dnf 4 with exit_on_lock when another dnf runs.
LOCKED = 200
# What rpm knows of a file: is it installed, flags, bytes, time, mode, name. By its flags, it is configuration,
# is not in the package, or may be missing.
FILE = "[%{FILESTATES:fstate}|%{FILEFLAGS:fflags}|%{FILESIZES}|%{FILEMTIMES}|%{FILEMODES}|%{FILENAMES}\\n]"
INSTALLED, CONFIGURATION, MAY_BE_MISSING = "normal", "c", frozenset("gm")
# Where a transaction writes; each may be a file system of its own.
CHANGED = ("/", "/boot", "/efi", "/boot/efi", "/etc", "/usr", "/var", "/var/cache", "/var/lib")
PID_FILES = ("var/cache/dnf", "var/lib/dnf")
POLL = 2.0
# The start of a line in dnf's table of a transaction, and the line that says what a package replaces. dnf 4 and 5 wrap
# lines at different columns, but never within a name.
TOUCHED = r"(\S+)\s+({machine}|noarch|i[3-6]86)\s"
REPLACED = r"replacing\s+(\S+\.({machine}|noarch|i[3-6]86))\s"
LEFT_OUT = "Skipping packages"
NOT_PROVIDED = "nothing provides"
NEEDS = (
    "install what is missing first, or name the repositories that have it in thp_preflight_dependency_repositories: "
    "only those of the rollout are used"
)
# Characters; the second where something else explains more.
REASON_LENGTH, SHORT_REASON_LENGTH = 400, 160
# The lines of dnf's output that name the error; neither headings nor the settings that dnf lists after some errors.
REASON = re.compile(
    r"^(Error: .|Problem:|- )|FAILED|Public key for|Failing package is|PGP check for package|"
    r"do not have any GPG public keys|dnf5-system-state"
)
# The manual that dnf 5 names when a power failure has cut off a file of its state.
NO_STATE = "dnf5-system-state(7)"
NO_STATE_HINT = f"move that file away, as {NO_STATE} says, and start again"


def installed() -> list[str]:
    """Return every installed package, by name, version, release and architecture."""
    names = command.output(["rpm", "-qa", "--qf", NEVRA]).split()
    return sorted(name for name in names if not name.startswith(KEY))


def missing(wanted: Sequence[str]) -> list[str]:
    return [name for name in wanted if command.run(["rpm", "-q", "--quiet", name]).code != 0]


def provided(capability: str) -> bool:
    return command.run(["rpm", "-q", "--quiet", "--whatprovides", capability]).code == 0


def busy(root: Path = Path("/")) -> str | None:
    """Return who is in the middle of a transaction, by dnf's pid file or rpm's lock."""
    for folder in PID_FILES:
        for path in sorted((root / folder).glob("*_lock.pid")):
            pid = files.word(path) or ""
            if pid.isdecimal() and (root / "proc" / pid).exists():
                called = files.text(root / "proc" / pid / "cmdline") or ""
                return f"pid {pid} ({without_passwords(called.replace(chr(0), ' ').strip())[:80]})"
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


def dnf(
    words: Sequence[str], lock_timeout: float, hint: str, repositories: Sequence[str] = (), offline: bool = False
) -> str:
    """Run dnf to its end, however long that takes: a transaction must not be cut off. Only waiting has a timeout.

    The options check signatures and keep old kernels, whatever the host's configuration says. If the connection breaks,
    the module may die; its step still lasts until dnf has ended. What needs no repository is `offline`: dnf 5 refuses
    options for all repositories on a host that has none.
    """
    options = ["-y", "--setopt=installonly_limit=0"]
    if not _is_dnf5():
        options.append("--setopt=exit_on_lock=1")
    deadline = time.monotonic() + lock_timeout
    with contextlib.nullcontext([]) if offline else trust.options(repositories) as allowed:
        while True:
            wait_idle(max(0.0, deadline - time.monotonic()))
            done = command.run(["dnf", *options, *allowed, *words], timeout=None, descriptors=holder.step_under_way())
            if done.code != LOCKED or time.monotonic() > deadline:
                break
            time.sleep(POLL)
    if done.code != 0:
        raise failure(words, done, hint, repositories)
    return done.out


def failure(words: Sequence[str], done: command.Done, hint: str, repositories: Sequence[str]) -> Problem:
    """Return what dnf failed with, and the configuration that holds packages back if that is why."""
    verb, *names = (word for word in words if not word.startswith("-"))
    lines, longest = held.back(done.err + done.out, names, repositories), REASON_LENGTH
    if lines:
        hint = f"let {', '.join(sorted(map(bare, names)))} through, which this holds back: {' / '.join(lines)}"
        # A report has no room for all of dnf's reasons, and these lines are what helps.
        longest = SHORT_REASON_LENGTH
    elif NO_STATE in done.err + done.out:
        hint = NO_STATE_HINT
    elif repositories and NOT_PROVIDED in done.err + done.out:
        hint = NEEDS
    return Problem(f"dnf {verb} ended with {done.code}: {reason(done.out, done.err, longest)}", hint)


def _is_dnf5() -> bool:
    """Say whether `dnf` is dnf 5, by the name of its file: `dnf --version` would be slow with dnf 4."""
    return Path(shutil.which("dnf") or "dnf").resolve().name == "dnf5"


def reason(out: str, err: str, longest: int = REASON_LENGTH) -> str:
    """Return dnf's errors, without the progress bars before them or the advice after them."""
    # Before any of it is cut off: what is left of an address shows no longer that it has a password.
    lines = [line.strip() for line in without_passwords(err + out).splitlines() if line.strip()]
    complaints = [line for line in lines if REASON.search(line)] or lines[-2:]
    return " / ".join(dict.fromkeys(complaints[:3]))[:longest] or "it printed nothing"


def bare(nevra: str) -> str:
    return nevra.rpartition(".")[0].rsplit("-", 2)[0]


def family(nevra: str) -> str:
    """Return name and architecture of a package, which all its versions have in common."""
    return f"{bare(nevra)}.{nevra.rpartition('.')[2]}"


def touched(output: str, machine: str) -> list[str]:
    """Return the families of the packages that a transaction installs or replaces, from dnf's output."""
    table = output.partition(LEFT_OUT)[0]
    found = {f"{name}.{arch}" for name, arch in re.findall(TOUCHED.format(machine=machine), table)}
    return sorted(found | {name for name, _ in re.findall(REPLACED.format(machine=machine), table)})


def download(wanted: Sequence[str], lock_timeout: float, repositories: Sequence[str]) -> list[str]:
    """Download all that an install needs and check every signature. Return the families that it would touch."""
    words = ["install", "--downloadonly", *wanted]
    output = dnf(words, lock_timeout, "check the packages' signatures and dependencies", repositories)
    found = touched(output, platform.machine())
    unseen = [name for name in wanted if family(name) not in found]
    if unseen:
        # Otherwise the changes of the rollout could not be told apart from those of others.
        what = f"dnf's list of the transaction does not name {', '.join(unseen)}"
        raise Problem(what, "check whether debuglevel in /etc/dnf/dnf.conf hides it")
    return found


def change(before: Sequence[str], after: Sequence[str]) -> dict[str, list[str]]:
    return {"added": sorted(set(after) - set(before)), "removed": sorted(set(before) - set(after))}


def alone(to_remove: Sequence[str], to_install: Sequence[str]) -> list[str]:
    """Return what to remove by itself. The other packages are replaced by an older version.

    Removing those first would also remove the packages that need them.
    """
    replaced = {family(name) for name in to_install}
    return [name for name in to_remove if family(name) not in replaced]


def dependents(names: Sequence[str]) -> list[str]:
    """Return the other installed packages that need one of these: dnf would remove them as well."""
    if not names:
        return []
    words = ["-q", "repoquery", "--installed", "--qf", "%{name}-%{evr}.%{arch}\\n"]
    done = command.run(["dnf", *words, "--whatrequires", ",".join(names)])
    if done.code != 0:
        raise failure(["repoquery"], done, "see /var/log/dnf.log on the host", ())
    return sorted(set(done.out.split()) - set(names))


def damaged(names: Sequence[str]) -> list[str]:
    """Return the files of packages that a power failure has left empty, or has not left at all."""
    return [str(path) for _, size, _, path in _files(names) if _size(path) < min(size, 1)]


def remove_emptied(names: Sequence[str]) -> None:
    """Remove what a power failure has left of configuration files: rpm would keep an empty file as somebody's work.

    Somebody who emptied a file has changed its time as well, which rpm has set.
    """
    for flags, size, written, path in _files(names):
        if CONFIGURATION in flags and size and _size(path) == 0 and int(path.lstat().st_mtime) == written:
            path.unlink()


def _files(names: Sequence[str]) -> Iterator[tuple[str, int, int, Path]]:
    """Yield flags, size, time and path of each regular file that packages bring."""
    for line in command.output(["rpm", "-q", "--qf", FILE, *names]).splitlines() if names else ():
        state, flags, size, written, mode, name = line.split("|", 5)
        if state == INSTALLED and stat.S_ISREG(int(mode)) and not MAY_BE_MISSING.intersection(flags):
            yield flags, int(size), int(written), ROOT / name.lstrip("/")


def _size(path: Path) -> int:
    """Return the size of a regular file, and -1 if there is none."""
    try:
        found = path.lstat()
    except OSError:
        return -1
    return found.st_size if stat.S_ISREG(found.st_mode) else -1


def keep() -> None:
    """Write to the disk what a transaction has changed, however long that takes.

    Neither rpm nor dnf does for every file, and a power failure right after the transaction would leave empty ones.
    """
    places = [path for path in CHANGED if Path(path).is_dir()]
    command.output(["sync", "--file-system", *places], timeout=None, hint="see the kernel's log for errors of the disk")
