"""Build the packages of one flavour, sign them, and put them into build/repo as a dnf repository.

The kernel and its selftests are two builds of one spec, so that a changed test does not compile a kernel. A build whose
inputs, by content, are those of the last one is skipped. The server and debug flavours, and a kernel on another
configuration, are further builds of that spec; each gets a repository of its own, complete with the selftests, in
build/repo-NAME. Packages for hosts with any of these kernels have specs of their own, and are in every repository.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts import config, files, flavours, lock, series, signing
from scripts.console import BUILD, ROOT, UserError, main, run_logged, say, step
from scripts.flavours import CLOUD, SERVER, Flavour

SPEC = ROOT / "SPECS" / "kernel-thp.spec"
TUNED_SPEC = ROOT / "SPECS" / "tuned-profiles-thp.spec"
TUNED = ROOT / "tuned-profiles"
TOOLS_SPEC = ROOT / "SPECS" / "thp-tools.spec"
THP_TOOLS = ROOT / "tools"
TESTS = ROOT / "tests" / "selftests"
WORK = BUILD / "rpmbuild"
REPO_BASE = BUILD / "repo-base"
SCRIPTS = tuple(ROOT / "scripts" / name for name in ("kconfig.py", "split_modules.py"))
CORE_MODULES = ROOT / "SOURCES" / "core-modules.txt"
NEEDED_GIB = 15
KEY_NAME = "RPM-GPG-KEY-kernel-thp"
TOOLS = (
    *("bc", "bison", "depmod", "flex", "gcc", "make", "openssl", "pahole", "patch", "perl", "rsync", "xz", "zstd"),
    *("createrepo_c", "gpg", "rpmbuild", "rpmsign"),
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
    packed: Path | None = None  # the spec's only source is this directory; without it, the kernel and its series

    @property
    def folder(self) -> Path:
        return self.root / self.name

    @property
    def packages(self) -> list[Path]:
        return sorted(self.folder.glob("RPMS/*/*.rpm"))

    @property
    def stamp(self) -> Path:
        return self.folder / "stamp"


def kernel(flavour: Flavour = CLOUD) -> Stage:
    inputs = (config.complete(flavour), *config.fragments(flavour), CORE_MODULES, *SCRIPTS)
    return Stage(flavour.name, ("--without=selftests", *flavour.rpmbuild), inputs)


def selftests() -> Stage:
    return Stage("selftests", ("--without=kernel",), tuple(files_of(TESTS)))


def tuned_profiles() -> Stage:
    return Stage("tuned-profiles", (), tuple(files_of(TUNED)), spec=TUNED_SPEC, packed=TUNED)


def tools() -> Stage:
    return Stage("tools", (), tuple(files_of(THP_TOOLS)), spec=TOOLS_SPEC, packed=THP_TOOLS)


def on_base(base: Path) -> Stage:
    """Return the build of the server flavour on another configuration than ours."""
    options = ("--without=selftests", *SERVER.rpmbuild, f"--define=base_config {base}")
    return Stage("base", options, (base, *config.OURS, CORE_MODULES, *SCRIPTS))


def files_of(folder: Path) -> list[Path]:
    """Return what is packed of a directory; what Python leaves there when a test imports a file is not."""
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")


def patches() -> list[Path]:
    return series.Series(ROOT / "patches" / lock.used().series).patches()


def digest(stage: Stage) -> str:
    """Return the hash of everything a stage is made from; times and places of the files do not count."""
    total = hashlib.sha256(b"" if stage.packed else lock.used().line().encode())
    for path in [stage.spec, *([] if stage.packed else patches()), *stage.inputs]:
        content = path.read_bytes()
        name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path.name
        total.update(f"{name} {len(content)}\n".encode() + content)
    return total.hexdigest()


def check_host() -> None:
    missing = [tool for tool in TOOLS if not shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")]
    roots = [Path("/usr/include"), *Path("/usr/include").glob("*-linux-gnu")]
    missing += [header for header in HEADERS if not any((root / header).exists() for root in roots)]
    if missing:
        raise UserError(f"this host lacks {', '.join(missing)}", "run `make deps`")
    free = shutil.disk_usage(BUILD).free >> 30
    if free < NEEDED_GIB:
        raise UserError(
            f"{BUILD} has {free} GiB free, a build needs {NEEDED_GIB}", "free some, or move build/ elsewhere"
        )


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
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if stage.packed:
        pack(stage.packed, stage.packed.name, folder / f"{stage.packed.name}.tar")
        return
    source = lock.used()
    (folder / source.path.name).symlink_to(source.path)
    files.replace(folder / lock.USED.name, source.line())
    # rpmbuild asks for every source of the spec, whatever it is told to build.
    for path in [*patches(), *config.FOLDER.rglob("*.config"), CORE_MODULES, *SCRIPTS]:
        shutil.copyfile(path, folder / path.name)
    pack(TESTS, "thp", folder / "selftests.tar")


def compiler(stage: Stage) -> tuple[list[str], dict[str, str]]:
    """Return rpmbuild's options and environment for ccache, set so that another clone finds the same entries."""
    if not shutil.which("ccache"):
        return [], {}
    # Not ccache's depend mode, though it is faster: it overlooks .incbin, and so takes the last build's module key and
    # even its compressed kernel for this one's. Nor without its second preprocessing: Kconfig learns by errors what the
    # compiler can do, and some of them are the preprocessor's, which are only warnings then.
    return ["--define=kernel_cc ccache gcc"], {
        "CCACHE_BASEDIR": str(stage.root),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_NODEPEND": "1",
    }


def build(stage: Stage) -> None:
    wanted = digest(stage)
    if stage.packages and stage.stamp.exists() and stage.stamp.read_text() == wanted:
        say(f"rpms: {stage.name} is up to date")
        return
    check_host()
    stage_sources(stage, stage.folder / "SOURCES")
    shutil.rmtree(stage.folder / "RPMS", ignore_errors=True)
    options, env = compiler(stage)
    if Path("/etc/debian_version").exists():
        # Debian's packages are not in the rpm database; `make deps` and check_host() look after them.
        options.append("--nodeps")
    defines = [f"--define=_topdir {stage.folder}"]
    if not stage.packed:
        defines.append(f"--define=base {lock.used().version}")
    log = BUILD / "logs" / f"rpmbuild-{stage.name}.log"
    with step(f"rpmbuild {stage.name}"):
        run_logged(
            ["rpmbuild", "-bb", *stage.options, *defines, *options, str(stage.spec)],
            log,
            f"rpmbuild {stage.name}",
            "fix what the log says, then run `make rpms` again",
            env=env,
        )
    stage.stamp.write_text(wanted)


def publish(built: list[Stage], repo: Path) -> None:
    """Make the repository unless it is that of the present packages."""
    wanted = "".join(f"{stage.stamp.read_text()}\n" for stage in built)
    stamp = repo / ".inputs"
    if stamp.exists() and stamp.read_text() == wanted:
        say(f"rpms: {repo} is up to date")
        return
    with step("sign the packages, make the repository"):
        make_repository([path for stage in built for path in stage.packages], repo, wanted)


def make_repository(packages: list[Path], repo: Path, inputs: str) -> None:
    """Make a signed repository under another name and put it in place of the old one when it is complete."""
    part, old = repo.with_suffix(".part"), repo.with_suffix(".old")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with signing.keyring() as home:
        signing.sign_packages(home, [Path(shutil.copy2(path, part)) for path in packages])
        subprocess.run(["createrepo_c", "--quiet", str(part)], check=True, stdin=subprocess.DEVNULL)
        signing.sign_file(home, part / "repodata" / "repomd.xml")
        signing.export(home, part / KEY_NAME)
    (part / ".inputs").write_text(inputs)
    shutil.rmtree(old, ignore_errors=True)
    if repo.exists():
        repo.rename(old)
    part.rename(repo)
    shutil.rmtree(old, ignore_errors=True)


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
    built = [chosen, selftests(), tuned_profiles(), tools()]
    with ExitStack() as locks:
        for stage in built:
            locks.enter_context(alone(stage))
            build(stage)
        publish(built, repo)


if __name__ == "__main__":
    main(command)
