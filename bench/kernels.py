"""The kernels of the benchmark: the base kernel, the base kernel with the series, upstream's 6.12, and a newer one.

All have the same configuration and compiler, and each is built once. The build prints options that upstream lacks.
Those that know vm.defrag_mode are there a second time, with the mode on before init starts.
The instruction counts of `make check` are those of a fourth one, which needs no building: the package's.
"""

from __future__ import annotations

import functools
import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lab import debs, direct_boot
from lab.kernel_build import Place, merged, options, refused
from scripts import distro, files, kconfig, lock, rpms, series
from scripts.console import BUILD, UserError, say, step
from scripts.flavours import CLOUD

HERE = Path(__file__).resolve().parent
OUT = BUILD / "bench"
CONFIG = HERE / "kernel.config"
PARTS = (direct_boot.CONFIG, CONFIG)
STOCK, THP, UPSTREAM = "stock", "thp", "upstream"
NAMES = (STOCK, THP, UPSTREAM)
PACKAGED = "packaged"
NEWEST = "newest"
# The series up to a patch: before defrag mode, and what each of its patches adds.
BEFORE = "upto-unlocked-split-queue"
STEPS = tuple(f"upto-{slug}" for slug in ("defrag-mode", "wake-for-blocks", "block-watermark", "ignore-skip-hints"))
DEFRAG, NEWEST_DEFRAG = f"{THP}-defrag", f"{NEWEST}-defrag"
ALWAYS, ADVISED = f"{THP}-always", f"{THP}-madvise"
# The same images with more words on the kernel line. Those in capitals are for the programs.
IMAGE_OF = {**{f"{name}-defrag": name for name in (THP, NEWEST, *STEPS)}, ALWAYS: THP, ADVISED: THP}
DEFRAG_LINE = "sysctl.vm.defrag_mode=1 BENCH_DEFRAG_MODE=1"
LINES = {ALWAYS: "BENCH_SWAPIN=always", ADVISED: "BENCH_SWAPIN=madvise"}
UPSTREAM_PACKAGE = "linux-source-6.12"
NEWEST_PACKAGE, NEWEST_SUITE = "linux-source-7.3", "trixie-backports"
# qemu does not chain a translated block that spans two pages of code, which costs about 30 ns per execution. In one of
# the kernels the loop over the tail pages of a freed huge page happened to span two pages: 16 us per huge page.
# Functions of that file therefore start on a page of their own.
PLACEMENT = "CFLAGS_page_alloc.o=-falign-functions=4096"
# Kconfig has no prompt for this option.
THP_SWAP = re.compile(r"(?m)^(config THP_SWAP\n\tdef_bool) [yn]$")


@dataclass(frozen=True)
class Kernel:
    """`key` changes with everything the kernel is built from, and with `line`, what is added to the kernel line."""

    name: str
    version: str
    thp_swap: bool
    key: str
    image: Path
    line: str = ""

    @property
    def label(self) -> str:
        return self.image.name.partition(".")[0]

    @property
    def config(self) -> Path:
        return self.image.with_suffix(".config")


@dataclass(frozen=True)
class Source:
    """`prepare` puts the source into the folder; `mark` identifies it."""

    version: str
    mark: str
    folder: Path
    prepare: Callable[[], None]


def configuration() -> Path:
    """Write the configuration of all kernels."""
    return merged(OUT / "kernel.config", *PARTS)


def of_tree(commit: str) -> Source:
    """Return a commit of the tree. Uncommitted changes are not measured."""
    base = lock.used()
    _, tree = series.place(base)
    if not tree.exists:
        raise UserError(f"there is no tree at {tree.folder}", "run `make tree`")
    # Resolved here: in the worktree, HEAD is another commit.
    commit = tree.git("rev-parse", commit)
    folder = OUT / "src" / f"linux-{base.series}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    mark = tree.git("rev-parse", f"{commit}^{{tree}}")
    return Source(base.version, mark, folder, lambda: tree.worktree(folder, commit))


def of_series(slug: str) -> Source:
    """Return the tree with the patches up to one of them."""
    patches, _ = series.place(lock.used())
    later = [patch.stem for patch in patches.patches()][::-1].index(slug)
    return of_tree(f"HEAD~{later}")


def of_package(name: str, suite: str = "") -> Source:
    """Return a kernel's source that is a package of the distribution, as verified by apt."""
    package = debs.package(name, suite)
    match = re.search(r"_(\d+(?:\.\d+)+)-", package.name)
    if not match:
        raise UserError(f"{package} does not name its version", f"delete it, then download {name} again")
    folder = OUT / "src" / f"linux-{match[1]}"

    def unpack() -> None:
        if folder.exists():
            return
        with step(f"unpack {package.name}"), distro.scratch(OUT / "src" / "unpack") as part:
            subprocess.run(["dpkg-deb", "-x", str(package), str(part)], check=True)
            tarball = part / "usr" / "src" / f"{name}.tar.xz"
            (part / "source").mkdir()
            command = ["tar", "-x", "--strip-components=1", "-C", str(part / "source"), "-f", str(tarball)]
            subprocess.run(command, check=True)
            (part / "source").replace(folder)

    return Source(match[1], package.name, folder, unpack)


SOURCES: dict[str, Callable[[], Source]] = {
    STOCK: lambda: of_tree("base"),
    THP: lambda: of_tree("HEAD"),
    UPSTREAM: lambda: of_package(UPSTREAM_PACKAGE),
    NEWEST: lambda: of_package(NEWEST_PACKAGE, NEWEST_SUITE),
    **{name: functools.partial(of_series, name.partition("-")[2]) for name in (BEFORE, *STEPS)},
}


def compiler() -> str:
    return subprocess.run(["gcc", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


def set_thp_swap(source: Path, on: bool) -> None:
    """Set in the source whether huge pages are swapped out whole. Leave the file alone if it is set already."""
    path = source / "mm" / "Kconfig"
    text = path.read_text()
    new, found = THP_SWAP.subn(rf"\g<1> {'y' if on else 'n'}", text)
    if found != 1:
        raise UserError(f"{path} has THP_SWAP in another form", f"adapt THP_SWAP in {__file__}")
    if new != text:
        files.replace(path, new)


def lacks(kernel: Kernel) -> list[str]:
    """Return the options of the configuration that this kernel does not have."""
    return refused(options(*PARTS), kconfig.parse(kernel.config.read_text()))


def packaged() -> Kernel:
    """Return the kernel of the built package."""
    found = list(CLOUD.repo.glob(f"{CLOUD.package}-core-*.rpm"))
    if len(found) != 1:
        raise UserError(f"{CLOUD.repo} has {len(found)} packages {CLOUD.package}-core, not one", "run `make rpms`")
    with distro.scratch(OUT / "package") as part:
        rpms.extract(found[0], part, "*/vmlinuz")
        (vmlinuz,) = part.glob("lib/modules/*/vmlinuz")
        key = hashlib.sha256(vmlinuz.read_bytes()).hexdigest()[:16]
        image = OUT / "kernels" / f"{PACKAGED}.{key}.bzImage"
        image.parent.mkdir(parents=True, exist_ok=True)
        for old in image.parent.glob(f"{PACKAGED}.*"):
            old.unlink()
        vmlinuz.replace(image)
    return Kernel(PACKAGED, lock.used().version, True, key, image)


@functools.cache
def find(name: str, thp_swap: bool = True) -> Kernel:
    """Return the kernel as the present sources define it, built or not."""
    if name == PACKAGED:
        return packaged()
    if name in IMAGE_OF:
        built = find(IMAGE_OF[name], thp_swap)
        line = LINES.get(name, DEFRAG_LINE)
        return replace(built, name=name, key=f"{built.key}-{line}", line=line)
    source = SOURCES[name]()
    label = name if thp_swap else f"{name}-split-swap"
    parts = (source.mark, configuration().read_text(), PLACEMENT, label, compiler())
    key = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
    return Kernel(name, source.version, thp_swap, key, OUT / "kernels" / f"{label}.{key}.bzImage")


def build(name: str, thp_swap: bool = True) -> Kernel:
    """Return a kernel, and build it first if it is missing."""
    kernel = find(name, thp_swap)
    if not kernel.image.exists():
        with step(f"build the {kernel.label} kernel"):
            make(kernel, SOURCES[IMAGE_OF.get(name, name)]())
    return kernel


def make(kernel: Kernel, source: Source) -> None:
    source.prepare()
    set_thp_swap(source.folder, kernel.thp_swap)
    work = Place(source.folder, OUT / "objects" / source.folder.name, BUILD / "logs" / f"bench-{kernel.label}.log")
    missing = work.configure(configuration())
    if missing and kernel.version != lock.used().version:
        say(f"  Linux {kernel.version} does not have {', '.join(missing)}")
    elif missing:
        raise UserError(f"{CONFIG} asks for {missing[0]}, Kconfig does not grant it", "fix that file")
    if (work.configuration().get("CONFIG_THP_SWAP", "n") == "y") is not kernel.thp_swap:
        raise UserError(f"CONFIG_THP_SWAP of the {kernel.label} kernel is not as requested", f"read {work.log}")
    built = work.image(kernel.label, PLACEMENT)
    kernel.image.parent.mkdir(parents=True, exist_ok=True)
    for old in kernel.image.parent.glob(f"{kernel.label}.*"):
        old.unlink()
    shutil.copyfile(work.objects / ".config", kernel.config)
    part = kernel.image.with_suffix(".part")
    shutil.copyfile(built, part)
    part.replace(kernel.image)
