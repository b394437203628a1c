"""The repository: the exact packages of one release, with the signatures of metadata and packages checked."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ansible_collections.kernel_thp.fleet.plugins.module_utils import (
    command,
    files,
    packages,
    repo_setup,
    trust,
)
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.module_utils.repo_setup import Difference, Wanted

FIELDS = "%{name} %{version}-%{release} %{name}-%{evr}.%{arch}\\n"
# The -core package provides its `uname -r` with this name.
UNAME = "-core-uname-r = "
HINT = (
    "check the repository's file in /etc/yum.repos.d, and that rpm has its key (rpm --import): "
    "dnf may not import any by itself"
)
# What dnf 4 and 5 say.
UNKNOWN = ("Unknown repo", "No matching repositories")
UNKNOWN_HINT = (
    "put its file into /etc/yum.repos.d, correct thp_preflight_repositories, or have it set up by "
    "thp_preflight_repository_url and thp_preflight_repository_fingerprint"
)
# dnf has found a way to install everything, and was told to answer no.
RESOLVED = "Operation aborted"


@dataclass(frozen=True)
class Target:
    """What a rollout installs on a host, and from which repositories, those for dependencies included."""

    release: str
    uname: str
    packages: list[str]
    repositories: list[str]


class Repository:
    def __init__(
        self, names: Sequence[str], options: Sequence[str], check_metadata: bool, set_up: list[Difference]
    ) -> None:
        self.names = names
        # What had to be set up first.
        self.set_up = set_up
        # Not for those of dependencies: many distributions do not sign their metadata.
        signed = names if check_metadata else ()
        self.options = [*options, *(f"--setopt={name}.repo_gpgcheck=1" for name in signed)]
        # A package that the host excludes is found, and refused by name later: the host must not get another release.
        self.everything = ["-q", "-y", *self.options, "--setopt=disable_excludes=all,*"]

    def refresh(self) -> None:
        """Download the metadata again, and check its signature."""
        done = command.run(["dnf", *self.everything, "--refresh", "makecache"], timeout=None)
        if done.code != 0:
            why = packages.reason(done.out, done.err)
            raise Problem(f"the repository cannot be used: {why}", _hint(why))

    def query(self, *words: str) -> list[str]:
        done = command.run(["dnf", *self.everything, "repoquery", *words], timeout=None)
        if done.code != 0:
            raise Problem(f"the repository cannot be queried: {packages.reason(done.out, done.err)}", HINT)
        return [line for line in done.out.splitlines() if line.strip()]

    def target(
        self, release: str, kernel: Sequence[str], others: Sequence[str], dependencies: Sequence[str] = ()
    ) -> Target:
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
        provided = self.query("--provides", *(found[name][1] for name in kernel))
        return Target(releases[0], uname(provided), nevras, [*self.names, *dependencies])

    def rehearse(self, target: Target) -> None:
        """Have dnf find a way to install what is missing, and tell it not to."""
        wanted = packages.missing(target.packages)
        if not wanted:
            return
        options = ["--assumeno", *self.options, f"--enablerepo={','.join(target.repositories)}"]
        done = command.run(["dnf", *options, "install", *wanted], timeout=None)
        if done.code != 0 and RESOLVED not in done.out + done.err:
            raise packages.failure(["install", *wanted], done, HINT, target.repositories)


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


def _hint(why: str) -> str:
    return UNKNOWN_HINT if any(words in why for words in UNKNOWN) else HINT


@contextmanager
def opened(
    names: Sequence[str], check_metadata: bool, leave_no_trace: bool, wanted: Wanted | None = None
) -> Iterator[Repository]:
    """Open the repositories of a rollout, and set the one up that is wanted. Without a trace, it exists here only."""
    key, set_up = "", []
    if wanted:
        key = repo_setup.checked_key(wanted)
        set_up = repo_setup.make(wanted, key, check=leave_no_trace)
    with ExitStack() as stack:
        extra = []
        if leave_no_trace:
            folder = stack.enter_context(TemporaryDirectory(prefix="kernel-thp-"))
            extra = [f"--setopt=cachedir={folder}/cache", f"--setopt=logdir={folder}"]
            if wanted and set_up:
                own = Path(folder) / "repos" / f"{wanted.name}.repo"
                files.put(own, repo_setup.repo_file(wanted))
                # The first file of an id counts.
                extra.append(f"--setopt=reposdir={own.parent},/{repo_setup.FOLDER}")
        options = stack.enter_context(trust.options(names, key))
        yield Repository(names, [*options, *extra], check_metadata, set_up)
