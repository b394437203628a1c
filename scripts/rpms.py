"""Build the packages, sign them, and put them into build/repo as a dnf repository.

The kernel and its selftests are two builds of one spec, so that a changed test does not compile a kernel. A build whose
inputs, by content, are those of the last one is skipped.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts import lock, series, signing
from scripts.console import BUILD, ROOT, UserError, main, run_logged, say, step

SPEC = ROOT / "SPECS" / "kernel-thp.spec"
TESTS = ROOT / "tests" / "selftests"
WORK = BUILD / "rpmbuild"
REPO = BUILD / "repo"
NEEDED_GIB = 15
KEY_NAME = "RPM-GPG-KEY-kernel-thp"
TOOLS = (
    *("bc", "bison", "depmod", "flex", "gcc", "make", "openssl", "patch", "perl", "rsync", "xz", "zstd"),
    *("createrepo_c", "gpg", "rpmbuild", "rpmsign"),
)
HEADERS = ("libelf.h", "openssl/ssl.h")


@dataclass(frozen=True)
class Stage:
    """One run of rpmbuild: what it makes, what it leaves out, which files of its own make it what it is."""

    name: str
    without: str
    inputs: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        return WORK / self.name

    @property
    def packages(self) -> list[Path]:
        return sorted(self.folder.glob("RPMS/*/*.rpm"))

    @property
    def stamp(self) -> Path:
        return self.folder / "stamp"


def stages() -> tuple[Stage, Stage]:
    scripts = [ROOT / "scripts" / name for name in ("kconfig.py", "split_modules.py")]
    config = sorted((ROOT / "SOURCES" / "config").glob("*.config"))
    tests = sorted(path for path in TESTS.rglob("*") if path.is_file())
    return (
        Stage("kernel", "selftests", (*config, ROOT / "SOURCES" / "core-modules.txt", *scripts)),
        Stage("selftests", "kernel", tuple(tests)),
    )


def patches() -> list[Path]:
    return series.Series(ROOT / "patches" / lock.used().series).patches()


def digest(stage: Stage) -> str:
    """Return the hash of everything a stage is made from; times and places of the files do not count."""
    total = hashlib.sha256(lock.used().line().encode())
    for path in [SPEC, *patches(), *stage.inputs]:
        content = path.read_bytes()
        total.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
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


def pack_tests(target: Path) -> None:
    """Pack the selftests as the directory `thp`; the same files give the same bytes."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = "root"
        return member

    with tarfile.open(target, "w") as archive:
        for path in sorted(path for path in TESTS.rglob("*") if path.is_file()):
            archive.add(path, f"thp/{path.relative_to(TESTS)}", filter=plain)


def stage_sources(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    kernel = stages()[0]
    source = lock.used()
    (folder / source.path.name).symlink_to(source.path)
    for path in [*patches(), *kernel.inputs]:
        shutil.copyfile(path, folder / path.name)
    pack_tests(folder / "selftests.tar")


def compiler() -> tuple[list[str], dict[str, str]]:
    """Return rpmbuild's options and environment for ccache, set so that another clone finds the same entries."""
    if not shutil.which("ccache"):
        return [], {}
    # Not ccache's depend mode, though it is faster: it overlooks .incbin, and so takes the last build's module key and
    # even its compressed kernel for this one's.
    return ["--define=kernel_cc ccache gcc"], {
        "CCACHE_BASEDIR": str(WORK),
        "CCACHE_NOHASHDIR": "1",
        "CCACHE_NODEPEND": "1",
    }


def build(stage: Stage) -> None:
    wanted = digest(stage)
    if stage.packages and stage.stamp.exists() and stage.stamp.read_text() == wanted:
        say(f"rpms: {stage.name} is up to date")
        return
    check_host()
    stage_sources(stage.folder / "SOURCES")
    shutil.rmtree(stage.folder / "RPMS", ignore_errors=True)
    options, env = compiler()
    if Path("/etc/debian_version").exists():
        # Debian's packages are not in the rpm database; `make deps` and check_host() look after them.
        options.append("--nodeps")
    defines = [f"--define=_topdir {stage.folder}", f"--define=base {lock.used().version}"]
    log = BUILD / "logs" / f"rpmbuild-{stage.name}.log"
    with step(f"rpmbuild {stage.name}"):
        run_logged(
            ["rpmbuild", "-bb", f"--without={stage.without}", *defines, *options, str(SPEC)],
            log,
            f"rpmbuild {stage.name}",
            "mend what the log says, then run `make rpms` again",
            env=env,
        )
    stage.stamp.write_text(wanted)


def publish(built: tuple[Stage, ...]) -> None:
    """Make the signed repository under another name and put it in place of the old one when it is complete."""
    wanted = "".join(f"{stage.stamp.read_text()}\n" for stage in built)
    stamp = REPO / ".inputs"
    if stamp.exists() and stamp.read_text() == wanted:
        say(f"rpms: {REPO} is up to date")
        return
    part, old = REPO.with_suffix(".part"), REPO.with_suffix(".old")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    with step("sign the packages, make the repository"), signing.keyring() as home:
        packages = [Path(shutil.copy2(path, part)) for stage in built for path in stage.packages]
        signing.sign_packages(home, packages)
        subprocess.run(["createrepo_c", "--quiet", str(part)], check=True, stdin=subprocess.DEVNULL)
        signing.sign_file(home, part / "repodata" / "repomd.xml")
        signing.export(home, part / KEY_NAME)
    (part / ".inputs").write_text(wanted)
    shutil.rmtree(old, ignore_errors=True)
    if REPO.exists():
        REPO.rename(old)
    part.rename(REPO)
    shutil.rmtree(old, ignore_errors=True)


@contextmanager
def alone() -> Iterator[None]:
    """Let one build at a time work in build/rpmbuild."""
    WORK.mkdir(parents=True, exist_ok=True)
    with (WORK / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("rpms: another build is running, waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def command() -> None:
    with alone():
        built = stages()
        for stage in built:
            build(stage)
        publish(built)


if __name__ == "__main__":
    main(command)
