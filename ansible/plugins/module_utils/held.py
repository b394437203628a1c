"""Which line of the host's configuration keeps dnf from a package: an exclude, or a lock of its version.

dnf itself only says that a package is filtered out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import files

ROOT = Path("/")
# What dnf 4 and 5 say of packages that are excluded, and how they name those that others need.
FILTERED = re.compile(r"filtered out|excluded packages|excluded by versionlock")
NEEDED = re.compile(r"package (\S+)(?: from \S+)? is filtered out")
CONFIGURATIONS = (
    *("etc/dnf/dnf.conf", "etc/dnf/libdnf5.conf.d/*.conf", "usr/share/dnf5/libdnf.conf.d/*.conf"),
    "etc/yum.repos.d/*.repo",
)
MAIN = "main"
EXCLUDE, INCLUDE = ("exclude", "excludepkgs"), "includepkgs"
LOCKS = ("etc/dnf/plugins/versionlock.list", "etc/dnf/versionlock.toml")
LOCK_OF_DNF5 = re.compile(r'name\s*=\s*"(.*)"')
# Epoch, version, release and architecture at the end of a lock.
EVRA = re.compile(r"-[^-]+-[^-]+$")


def back(output: str, wanted: Sequence[str], repositories: Sequence[str], root: Path | None = None) -> list[str]:
    """Return the lines that hold packages back, if dnf has reported that packages are."""
    if not FILTERED.search(output):
        return []
    names = [*wanted, *NEEDED.findall(output)]
    found = (*_configured(names, repositories, root or ROOT), *_locked(names, root or ROOT))
    return [f"{path} line {number}: {line.strip()}" for path, number, line in found]


def _configured(names: Sequence[str], repositories: Sequence[str], root: Path) -> Iterator[tuple[Path, int, str]]:
    for path, number, line, section, option, value in _options(root):
        if section != MAIN and repositories and section not in repositories:
            continue
        patterns = value.replace(",", " ").split()
        matched = [name for name in names if any(fnmatchcase(form, one) for form in _forms(name) for one in patterns)]
        if (option in EXCLUDE and matched) or (option == INCLUDE and patterns and len(matched) < len(names)):
            yield path, number, line


def _options(root: Path) -> Iterator[tuple[Path, int, str, str, str, str]]:
    """Yield each line with its section, its option, and what it adds to the option's value."""
    for path in (path for pattern in CONFIGURATIONS for path in sorted(root.glob(pattern))):
        section = option = ""
        for number, line in enumerate((files.text(path) or "").splitlines(), 1):
            value = line
            if line.startswith("["):
                section, option = line.strip().strip("[]"), ""
            elif not line.startswith((" ", "\t")):
                option, _, value = (word.strip() for word in line.partition("="))
            yield path, number, line, section, option, value


def _forms(name: str) -> tuple[str, ...]:
    """Return the forms in which a pattern can name a package, from its full name."""
    whole, _, arch = name.rpartition(".")
    bare, *rest = whole.rsplit("-", 2)
    return (name, whole, bare, f"{bare}.{arch}", f"{bare}-{rest[0]}") if len(rest) == 2 else (name,)


def _locked(names: Sequence[str], root: Path) -> Iterator[tuple[Path, int, str]]:
    bare = [name.rsplit("-", 2)[0] for name in names]
    for path in (root / lock for lock in LOCKS):
        for number, line in enumerate((files.text(path) or "").splitlines(), 1):
            of_dnf5 = LOCK_OF_DNF5.match(line.strip())
            pattern = of_dnf5[1] if of_dnf5 else EVRA.sub("", line.strip().lstrip("!"))
            if any(fnmatchcase(name, pattern) for name in bare):
                yield path, number, line
