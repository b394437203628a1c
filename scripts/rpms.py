"""Build the packages of one flavour, sign them, and put them into build/repo as a dnf repository.

The kernel and its selftests are two builds of one spec, so that a changed test does not compile a kernel. A build whose
inputs, by content, are those of the last one is skipped. The server and debug flavours, and a kernel on another
configuration, are further builds of that spec; each gets a repository of its own, complete with the selftests, in
build/repo-NAME. Packages for hosts with any of these kernels have specs of their own, and are in every repository.

Options are variables of the environment: SPIN (the release of every package, 1 unless given), REPO_URL (where hosts get
the packages from), SIGN_KEY and SIGN_CERT (scripts/secure_boot.py), GPG_KEY (scripts/signing.py).
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts import config, files, flavours, lock, provenance, repository, secure_boot, series, signing
from scripts.compiler import cached
from scripts.console import BUILD, ROOT, UserError, main, run_logged, say, step
from scripts.flavours import CLOUD, SERVER, Flavour

SPEC = ROOT / "SPECS" / "kernel-thp.spec"
TUNED_SPEC = ROOT / "SPECS" / "tuned-profiles-thp.spec"
TUNED = ROOT / "tuned-profiles"
TOOLS_SPEC = ROOT / "SPECS" / "thp-tools.spec"
THP_TOOLS = ROOT / "tools"
RELEASE_SPEC = ROOT / "SPECS" / "kernel-thp-release.spec"
TESTS = ROOT / "tests" / "selftests"
WORK = BUILD / "rpmbuild"
REPO_BASE = BUILD / "repo-base"
SCRIPTS = tuple(ROOT / "scripts" / name for name in ("kconfig.py", "split_modules.py"))
CORE_MODULES = ROOT / "SOURCES" / "core-modules.txt"
# The compiled tree of the server flavour, whose modules all have debug information, takes more than 18 GiB alone.
NEEDED_GIB = 15
NEEDED_GIB_SERVER = 25
KEY_NAME = signing.KEY_NAME
TOOLS = (
    *("bc", "bison", "depmod", "flex", "gcc", "make", "openssl", "pahole", "patch", "perl", "rsync", "xz", "zstd"),
    *("createrepo_c", "gpg", "rpmbuild", "rpmsign", "sbsign"),
)
HEADERS = ("libelf.h", "openssl/ssl.h")


@dataclass(frozen=True)
class Stage:
    """One run of rpmbuild: its options, and which files of its own make it what it is."""

    name: str
    options: tuple[str, ...]
    inputs: tuple[Path, ...]
    root: Path = WORK
    spec: Path = SPEC
    packed: Path | None = None  # the spec's only source is this directory, as an archive

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def of_kernel(self) -> bool:
        """Whether it is built from the kernel and its series."""
        return self.spec == SPEC

    @property
    def signed(self) -> bool:
        """Whether it has a kernel, which is signed for Secure Boot."""
        return self.of_kernel and "--without=kernel" not in self.options

    @property
    def packages(self) -> list[Path]:
        return sorted(self.folder.glob("RPMS/*/*.rpm"))

    @property
    def stamp(self) -> Path:
        return self.folder / "stamp"

    @property
    def note(self) -> Path:
        """What scripts/provenance.py has noted of the build."""
        return self.folder / "build.json"


def kernel(flavour: Flavour = CLOUD) -> Stage:
    inputs = (config.complete(flavour), *config.fragments(flavour), CORE_MODULES, *SCRIPTS)
    return Stage(flavour.name, ("--without=selftests", *flavour.rpmbuild), inputs)


def selftests() -> Stage:
    return Stage("selftests", ("--without=kernel",), tuple(files_of(TESTS)))


def tuned_profiles() -> Stage:
    return Stage("tuned-profiles", (), tuple(files_of(TUNED)), spec=TUNED_SPEC, packed=TUNED)


def tools() -> Stage:
    return Stage("tools", (), tuple(files_of(THP_TOOLS)), spec=TOOLS_SPEC, packed=THP_TOOLS)


def release() -> Stage:
    """Return the build of the package that tells hosts of the repository and its keys, which are made if need be."""
    folder = BUILD / "release"
    folder.mkdir(parents=True, exist_ok=True)
    key, certificate = folder / KEY_NAME, folder / secure_boot.CERTIFICATE_NAME
    with signing.keyring() as home:
        signing.export(home, key)
    files.replace(certificate, secure_boot.signer().der())
    return Stage("release", (), (key, certificate), spec=RELEASE_SPEC)


def on_base(base: Path) -> Stage:
    """Return the build of the server flavour on another configuration than ours."""
    options = ("--without=selftests", *SERVER.rpmbuild, f"--define=base_config {base}")
    return Stage("base", options, (base, *config.OURS, CORE_MODULES, *SCRIPTS))


def files_of(folder: Path) -> list[Path]:
    """Return what is packed of a directory; what Python leaves there when a test imports a file is not."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")


def patches() -> list[Path]:
    return series.Series(ROOT / "patches" / lock.used().series).patches()


def spin() -> int:
    """Return which build of the same versions this is: the release of the packages."""
    text = os.environ.get("SPIN") or "1"
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"SPIN={text} is not a number of 1 or more", "count the builds of one version: 1, 2, 3")
    return int(text)


def spec_text(stage: Stage) -> str:
    """Return the spec with the values of this build for its defaults, so that a source package has them as well."""
    values = {"spin": str(spin())}
    if stage.of_kernel:
        values["base"] = lock.used().version
        if lock.used().kind != lock.KERNEL_ORG:
            # The file has the name of the release's, but is another.
            values["source_url"] = "%{nil}"
    if url := os.environ.get("REPO_URL"):
        if not re.fullmatch(r"[a-z]+://[^\s%\\]+", url):
            raise UserError(f"REPO_URL={url} is not the address of a repository", "give one such as https://host/path")
        values["repo_url"] = url
    text = stage.spec.read_text()
    for name, value in values.items():
        text = re.sub(rf"(?m)(?<=^%\{{!\?{name}:%global {name} )\S+(?=\}}$)", value, text)
    return text


def releases(stages: Iterable[Stage]) -> dict[str, str]:
    """Return what version and release the source package of each stage will have, by its name."""
    found = {}
    for stage in stages:
        values = [f"--define=spin {spin()}", *([f"--define=base {lock.used().version}"] if stage.of_kernel else [])]
        form = "--queryformat=%{NAME} %{VERSION}-%{RELEASE}"
        command = ["rpmspec", "-q", "--srpm", *stage.options, *values, form, str(stage.spec)]
        name, number = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
        found[name] = number
    return found


def digest(stage: Stage) -> str:
    """Return the hash of everything a stage is made from; times and places of the files do not count."""
    total = hashlib.sha256(lock.used().line().encode() if stage.of_kernel else b"")
    if stage.signed:
        total.update(secure_boot.signer().der())
    contents = [(stage.spec, spec_text(stage).encode())]
    contents += [(path, path.read_bytes()) for path in [*(patches() if stage.of_kernel else []), *stage.inputs]]
    for path, content in contents:
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
        total.update(f"{name} {len(content)}\n".encode() + content)
    return total.hexdigest()


def check_host(needed: int) -> None:
    missing = [tool for tool in TOOLS if not shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")]
    roots = [Path("/usr/include"), *Path("/usr/include").glob("*-linux-gnu")]
    missing += [header for header in HEADERS if not any((root / header).exists() for root in roots)]
    if missing:
        raise UserError(f"this host lacks {', '.join(missing)}", "run `make deps`")
    check_room(BUILD, needed, "move build/")


def check_room(folder: Path, needed: int, other: str) -> None:
    """`other` says how the build gets to another file system."""
    free = shutil.disk_usage(folder).free >> 30
    if free < needed:
        raise UserError(f"{folder} has {free} GiB free, a build needs {needed}", f"free some, or {other}")


def pack(folder: Path, name: str, target: Path) -> None:
    """Pack a directory under a name; the same files give the same bytes."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = "root"
        return member

    with tarfile.open(target, "w") as archive:
        for path in files_of(folder):
            archive.add(path, f"{name}/{path.relative_to(folder)}", filter=plain)


def stage_sources(stage: Stage, folder: Path) -> None:
    """Put the sources of a stage into a directory, all of them, as rpmbuild asks for whatever it is told to build."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if stage.packed:
        pack(stage.packed, stage.packed.name, folder / f"{stage.packed.name}.tar")
    if not stage.of_kernel:
        for path in () if stage.packed else stage.inputs:
            shutil.copyfile(path, folder / path.name)
        return
    source = lock.used()
    (folder / source.path.name).symlink_to(source.path)
    files.replace(folder / lock.USED.name, source.line())
    for path in [*patches(), *config.FOLDER.rglob("*.config"), CORE_MODULES, *SCRIPTS]:
        shutil.copyfile(path, folder / path.name)
    pack(TESTS, "thp", folder / "selftests.tar")


def compiler(stage: Stage) -> tuple[list[str], dict[str, str]]:
    """Return rpmbuild's options and environment for ccache, set so that another clone finds the same entries."""
    return [f"--define=kernel_cc {cached()}"], {"CCACHE_BASEDIR": str(stage.root), "CCACHE_NOHASHDIR": "1"}


def prepare(stage: Stage, folder: Path) -> list[str]:
    """Put spec and sources where rpmbuild is to find them; return the command's beginning and its end."""
    stage_sources(stage, folder / "SOURCES")
    spec = folder / "SPECS" / stage.spec.name
    spec.parent.mkdir(exist_ok=True)
    spec.write_text(spec_text(stage))
    command = ["rpmbuild", f"--define=_topdir {folder}", str(spec)]
    # Debian's packages are not in the rpm database; `make deps` and check_host() look after them.
    return [*command, "--nodeps"] if Path("/etc/debian_version").exists() else command


def build(stage: Stage) -> None:
    wanted = digest(stage)
    if stage.packages and stage.stamp.exists() and stage.stamp.read_text() == wanted:
        say(f"rpms: {stage.name} is up to date")
        return
    check_host(NEEDED_GIB_SERVER if stage.name == SERVER.name else NEEDED_GIB)
    command = prepare(stage, stage.folder)
    shutil.rmtree(stage.folder / "RPMS", ignore_errors=True)
    options, env = compiler(stage)
    if stage.signed:
        options += secure_boot.signer().rpmbuild
    began = provenance.now()
    with step(f"rpmbuild {stage.name}"):
        run_logged(
            [*command, "-bb", *stage.options, *options],
            BUILD / "logs" / f"rpmbuild-{stage.name}.log",
            f"rpmbuild {stage.name}",
            "fix what the log says, then run `make rpms` again",
            env=env,
        )
    noted = provenance.note(stage.options, wanted, began, lock.used() if stage.of_kernel else None)
    files.replace(stage.note, json.dumps(noted))
    stage.stamp.write_text(wanted)


def extract(package: Path, folder: Path, pattern: str = "*") -> None:
    """Unpack the files of a package whose paths match a pattern of cpio, in which `*` matches a slash as well."""
    with subprocess.Popen(["rpm2cpio", str(package)], stdout=subprocess.PIPE) as content:
        subprocess.run(["cpio", "-idm", "--quiet", pattern], stdin=content.stdout, cwd=folder, check=True)
    if content.returncode != 0:
        raise UserError(f"{package} cannot be unpacked", "run `make rpms`")


@contextmanager
def alone(stage: Stage) -> Iterator[None]:
    """Let one command at a time work on a stage."""
    stage.root.mkdir(parents=True, exist_ok=True)
    with stage.folder.with_suffix(".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"rpms: another command builds {stage.name}, waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    which = parser.add_mutually_exclusive_group()
    flavours.add_option(which)
    which.add_argument(
        "--base-config", type=Path, metavar="FILE", help="build on a distribution's configuration, into build/repo-base"
    )
    given = parser.parse_args()
    if given.base_config:
        chosen, repo = on_base(config.base_file(given.base_config)), REPO_BASE
    else:
        flavour = flavours.FLAVOURS[given.flavour]
        chosen, repo = kernel(flavour), flavour.repo
    built = [chosen, selftests(), tuned_profiles(), tools(), release()]
    repository.refuse_older(releases(built), repo)
    with ExitStack() as locks:
        for stage in built:
            locks.enter_context(alone(stage))
            build(stage)
        repository.publish(built, repo)


if __name__ == "__main__":
    main(command)
