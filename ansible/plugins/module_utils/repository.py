"""The repository: the exact packages of one release, with the signatures of metadata and packages checked."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, packages
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

FIELDS = "%{name} %{version}-%{release} %{name}-%{evr}.%{arch}\\n"
# The -core package provides its `uname -r` with this name.
UNAME = "-core-uname-r = "
HINT = "check the repository's file in /etc/yum.repos.d and its key"


@dataclass(frozen=True)
class Target:
    """What a rollout installs on a host."""

    release: str
    uname: str
    packages: list[str]


class Repository:
    def __init__(self, names: Sequence[str], check_metadata: bool, cache: str | None = None) -> None:
        """Use a cache of its own, if given, to leave no trace on the host."""
        self.options = ["-q", "-y", "--disablerepo=*", f"--enablerepo={','.join(names)}"]
        self.options += ["--setopt=*.skip_if_unavailable=0", "--setopt=*.gpgcheck=1"]
        self.options += ["--setopt=*.repo_gpgcheck=1"] if check_metadata else []
        self.options += [f"--setopt=cachedir={cache}", f"--setopt=logdir={cache}"] if cache else []

    def refresh(self) -> None:
        """Download the metadata again, and check its signature."""
        done = command.run(["dnf", *self.options, "--refresh", "makecache"], timeout=None)
        if done.code != 0:
            raise Problem(f"the repository cannot be used: {packages.reason(done.out, done.err)}", HINT)

    def query(self, *words: str) -> list[str]:
        done = command.run(["dnf", *self.options, "repoquery", *words], timeout=None)
        if done.code != 0:
            raise Problem(f"the repository cannot be queried: {packages.reason(done.out, done.err)}", HINT)
        return [line for line in done.out.splitlines() if line.strip()]

    def target(self, release: str, kernel: Sequence[str], others: Sequence[str]) -> Target:
        """Find the exact packages; without a release, the newest. All kernel packages are of one release."""
        specs = [f"{name}-{release}" if release else name for name in kernel]
        found = choose(self.query("--latest-limit=1", "--qf", FIELDS, *specs, *others), platform.machine())
        lacking = [name for name in (*kernel, *others) if name not in found]
        if lacking:
            of = f" of release {release}" if release else ""
            raise Problem(
                f"the repository has no {', '.join(lacking)}{of}", "correct thp_preflight_release, or publish it"
            )
        releases = sorted({found[name][0] for name in kernel})
        if len(releases) != 1:
            raise Problem(f"the repository has no whole release: {', '.join(releases)}", "set thp_preflight_release")
        nevras = [found[name][1] for name in (*kernel, *others)]
        return Target(releases[0], uname(self.query("--provides", *(found[name][1] for name in kernel))), nevras)


def choose(lines: Sequence[str], machine: str) -> dict[str, tuple[str, str]]:
    """Return release and full name of each package that fits this machine, by its name."""
    found = {}
    for line in lines:
        name, release, nevra = line.split()
        if nevra.rpartition(".")[2] in (machine, "noarch"):
            found[name] = (release, nevra)
    return found


def uname(provides: Sequence[str]) -> str:
    names = {line.partition(UNAME)[2].strip() for line in provides if UNAME in line}
    if len(names) != 1:
        raise Problem(f"the kernel packages do not say what `uname -r` will be: {sorted(names)}", "check the release")
    return names.pop()


@contextmanager
def opened(names: Sequence[str], check_metadata: bool, leave_no_trace: bool) -> Iterator[Repository]:
    if not leave_no_trace:
        yield Repository(names, check_metadata)
        return
    with TemporaryDirectory(prefix="kernel-thp-") as cache:
        yield Repository(names, check_metadata, cache)
