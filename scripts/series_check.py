"""Compile every prefix of the series for each variant of the kernel; a warning is an error.

A patch is compiled as far as it reaches: the files it changes and, when it changes a header, all files that the series
changes. After the last one everything in their directories is compiled. This shows that each patch builds at its
place; the package build shows that the whole does. What has compiled once is not compiled again, until a patch
before it changes. --changed leaves out patches that are recorded in patches/<base>/tested.json as they are.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scripts import config as kernel_config
from scripts import kconfig, lock, series, tested
from scripts.compiler import cached
from scripts.console import BUILD, UserError, main, run_logged, say, step
from scripts.flavours import SERVER

WORK = BUILD / "series-check"
SOURCE = WORK / "src"
FRAGMENTS = Path(__file__).with_name("variants")
PACKAGED = kernel_config.complete(SERVER)
COMMON = "CONFIG_WERROR=y\nCONFIG_DEBUG_INFO_NONE=y\n"
# Not compiled for the kernel, or not by itself.
APART = ("tools/", "scripts/", "Documentation/")
CONDITION = r"^[ \t]*obj-\$\((CONFIG_\w+)\)[ \t]*\+=.*\b{}\.o\b"


@dataclass(frozen=True)
class Variant:
    """One configuration of one architecture: the base it starts from, then scripts/variants/<name>.config."""

    name: str
    arch: str = "x86"
    defconfig: str = ""
    compiler: str = "gcc"

    @property
    def out(self) -> Path:
        return WORK / self.name

    @property
    def make(self) -> list[str]:
        where = ["-C", str(SOURCE), f"O={self.out}", f"ARCH={'i386' if self.name == 'i386' else self.arch}"]
        cross = f"CROSS_COMPILE={self.compiler[: -len('gcc')]}"
        return ["make", "-s", *where, f"-j{os.cpu_count()}", f"CC={cached(self.compiler)}", cross]

    @cached_property
    def fragment(self) -> str:
        return (FRAGMENTS / f"{self.name}.config").read_text() + COMMON

    def run(self, goals: list[str], what: str) -> None:
        log = BUILD / "logs" / f"series-check-{self.name}.log"
        hint = "fix the patch in build/tree, then `make refresh`"
        run_logged([*self.make, *goals], log, f"{what} with {self.name}", hint)

    def configure(self) -> None:
        """Make the configuration from its base; stop if Kconfig grants less than the fragment sets."""
        self.out.mkdir(parents=True, exist_ok=True)
        config = self.out / ".config"
        if self.defconfig:
            self.run([self.defconfig], "configuration")
        else:
            shutil.copyfile(PACKAGED, config)
        config.write_text(config.read_text() + self.fragment)
        self.run(["olddefconfig"], "configuration")
        have = kconfig.parse(config.read_text())
        for option, value in kconfig.parse(self.fragment).items():
            if have.get(option, "n") != value:
                fragment = FRAGMENTS / f"{self.name}.config"
                raise UserError(f"{fragment} sets {option}={value}, which Kconfig does not grant", "fix the fragment")

    def config(self) -> dict[str, str]:
        return kconfig.parse((self.out / ".config").read_text())


VARIANTS = (
    Variant("thp-on"),
    Variant("thp-off"),
    Variant("memcg-off"),
    Variant("i386", defconfig="i386_defconfig"),
    Variant("arm64", arch="arm64", defconfig="defconfig", compiler="aarch64-linux-gnu-gcc"),
)


def enabled(source: Path, name: str, config: Mapping[str, str]) -> bool:
    """Say whether a file is part of this kernel, by the Makefile beside it."""
    makefile = source / Path(name).with_name("Makefile")
    line = re.search(CONDITION.format(re.escape(Path(name).stem)), makefile.read_text(), re.MULTILINE)
    return not line or config.get(line[1], "n") != "n"


def concerns(name: str, arch: str) -> bool:
    return not name.startswith(APART) and (not name.startswith("arch/") or name.startswith(f"arch/{arch}/"))


@dataclass(frozen=True)
class Prefix:
    """The series up to and including one patch."""

    slug: str
    commit: str
    tree: str
    changed: tuple[str, ...]
    last: bool

    def goals(self, variant: Variant, everywhere: list[str]) -> list[str]:
        """Return the make targets this patch can break."""
        mine = [name for name in self.changed if concerns(name, variant.arch)]
        header = any(name.endswith(".h") or Path(name).name == "Kconfig" for name in mine)
        files = {name for name in mine if name.endswith(".c")} | set(everywhere if header or self.last else ())
        config = variant.config()
        files = {name for name in files if concerns(name, variant.arch) and enabled(SOURCE, name, config)}
        folders = {f"{Path(name).parent}/" for name in files} if self.last else set()
        return sorted({name[:-1] + "o" for name in files if (SOURCE / name).exists()} | folders)

    def stamp(self, variant: Variant) -> Path:
        """Name the file that says this has compiled; whatever has an effect on the result is in its name."""
        inputs = f"{variant}{variant.fragment}{self.changed}{self.last}{PACKAGED.read_text()}"
        return variant.out / "passed" / f"{self.tree}-{hashlib.sha256(inputs.encode()).hexdigest()[:16]}"


def prefixes(tree: series.Tree, patches: list[Path]) -> list[Prefix]:
    commits = tree.git("rev-list", "--reverse", "base..HEAD").splitlines()
    return [
        Prefix(
            patch.stem,
            commit,
            tree.git("rev-parse", f"{commit}^{{tree}}"),
            tuple(tree.git("diff", "--name-only", f"{commit}~", commit).splitlines()),
            commit == commits[-1],
        )
        for commit, patch in zip(commits, patches)
    ]


def compile_prefix(prefix: Prefix, variant: Variant, everywhere: list[str]) -> None:
    if not (variant.out / ".config").exists() or any("Kconfig" in name for name in prefix.changed):
        variant.configure()
    goals = prefix.goals(variant, everywhere)
    if goals:
        variant.run(goals, prefix.slug)
    stamp = prefix.stamp(variant)
    stamp.parent.mkdir(exist_ok=True)
    stamp.touch()


def keys(patches: Sequence[Path]) -> dict[str, str]:
    """Name what the outcome of each patch depends on: its diff, and those before it that touch the same files."""
    found = {}
    for number, patch in enumerate(patches):
        mine = tested.files(patch)
        before = [tested.diff(other) for other in patches[:number] if mine & tested.files(other)]
        found[patch.stem] = tested.key(*before, tested.diff(patch))
    return found


def chosen(names: str) -> list[Variant]:
    wanted = [name for name in names.split(",") if name]
    known = [variant.name for variant in VARIANTS]
    wrong = tested.unknown(wanted, known)
    if wrong:
        raise UserError(f"there is no variant {wrong}", f"use some of {','.join(known)}")
    return [variant for variant in VARIANTS if not wanted or variant.name in wanted]


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--variant", default="", help="names of variants with commas between them; all by default")
    parser.add_argument(
        "--changed", action="store_true", help="only patches that have changed since they were recorded"
    )
    parser.add_argument("--record", action="store_true", help="record the patches that pass, for --changed")
    arguments = parser.parse_args()
    variants = chosen(arguments.variant)
    if arguments.record and len(variants) < len(VARIANTS):
        raise UserError("a patch is recorded when it compiles with every variant", "leave out --variant")
    patches, tree = series.place(lock.used())
    current = keys(patches.patches())
    record = tested.Record(patches.folder, "series-check")
    slugs = record.changed(current) if arguments.changed else list(current)
    if not slugs:
        return
    for variant in variants:
        if not shutil.which(variant.compiler):
            raise UserError(f"there is no {variant.compiler}, which {variant.name} is compiled with", "run `make deps`")
    everywhere = tree.git("diff", "--name-only", "base", "HEAD", "--", "*.c").splitlines()
    wanted = [prefix for prefix in prefixes(tree, patches.patches()) if prefix.slug in slugs]
    pairs = [(prefix, variant) for prefix in wanted for variant in variants]
    left = [(prefix, variant) for prefix, variant in pairs if not prefix.stamp(variant).exists()]
    say(f"series-check: {len(left)} of {len(pairs)} combinations of prefix and variant are to be compiled")
    at = ""
    for prefix in wanted:
        for variant in variants:
            if prefix.stamp(variant).exists():
                continue
            if prefix.commit != at:
                tree.worktree(SOURCE, prefix.commit)
                at = prefix.commit
            with step(f"{prefix.slug} with {variant.name}"):
                compile_prefix(prefix, variant, everywhere)
        if arguments.record:
            # At once: an interruption loses nothing.
            record.write({**record.read(), prefix.slug: current[prefix.slug]})
    if arguments.record:
        record.write(current)
    what = f"{len(wanted)} of {len(current)} prefixes compile"
    say(f"series-check: {what} with {', '.join(variant.name for variant in variants)}")


if __name__ == "__main__":
    main(command)
