"""Make the complete configuration of every flavour in SOURCES/config/ from its fragments there, in the patched tree.

With --base FILE, nothing is written: FILE, a distribution's own configuration, is tried as the base of the package.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from scripts import kconfig, lock, series
from scripts.console import BUILD, ROOT, UserError, main, say
from scripts.flavours import CLOUD, DEBUG, FLAVOURS, SERVER, Flavour

FOLDER = ROOT / "SOURCES" / "config"
COMMON = FOLDER / "common"
REQUIRED = FOLDER / "required.config"
NO_DEBUG_INFO = FOLDER / "debug" / "95-no-debug-info.config"
# All of the variant that makes sense on a distribution's own configuration.
OURS = [COMMON / "10-variant-identity.config", COMMON / "20-thp.config", NO_DEBUG_INFO, REQUIRED]
# What others ask of a kernel, one file for each of them. The cloud flavour meets all of it.
LISTS = sorted((FOLDER / "required").glob("*.txt"))
# Answers to what Kconfig asks only in some of the trees that the lock names.
OTHER_TREES = FOLDER / "other-trees.config"
# The answers of a distribution's own configurations.
DISTRIBUTION = FOLDER / "distribution"
# Which of them a flavour is measured against; the first one is the base of the server flavour.
COUNTERPARTS = {CLOUD: ["cloud.txt"], SERVER: ["generic.txt", "cloud.txt"]}
WORK = BUILD / "config"


def complete(flavour: Flavour) -> Path:
    """Return the configuration that answers every question of Kconfig."""
    return FOLDER / f"kernel-x86_64-{flavour.name}.config"


def base(flavour: Flavour, tree: Path) -> list[Path]:
    """Return what is laid first, and what the fragments of the flavour may contradict."""
    if flavour == SERVER:
        return [DISTRIBUTION / COUNTERPARTS[flavour][0]]
    default = tree / "arch/x86/configs/x86_64_defconfig"
    return [default, *fragments(CLOUD)] if flavour == DEBUG else [default]


def fragments(flavour: Flavour) -> list[Path]:
    """Return the fragments that have to be granted, sorted by name, with those required of every flavour last."""
    own = (FOLDER / flavour.name).glob("*.config")
    shared = [] if flavour == DEBUG else list(COMMON.glob("*.config"))
    return [*sorted((*own, *shared), key=lambda path: path.name), REQUIRED]


@contextmanager
def patched_tree() -> Iterator[Path]:
    """Give a copy of the patched tree: what Kconfig leaves behind would be uncommitted work in the tree itself."""
    _, tree = series.place(lock.used())
    shutil.rmtree(WORK, ignore_errors=True)
    tree.git("worktree", "prune")
    tree.git("worktree", "add", "--quiet", "--detach", "--force", str(WORK), "HEAD")
    try:
        yield WORK
    finally:
        tree.git("worktree", "remove", "--force", str(WORK))


def unmet(needs: Mapping[str, str], have: Mapping[str, str]) -> list[str]:
    """Return the options of a list in SOURCES/config/required/ that a configuration lacks; `m` may be built in, too."""
    enough = {"y": {"y"}, "m": {"y", "m"}}
    return [option for option, value in needs.items() if have.get(option) not in enough[value]]


def check_lists(path: Path) -> None:
    """Stop if the configuration lacks an option that one of the lists asks for."""
    have = kconfig.parse(path.read_text())
    missing = []
    for needed in LISTS:
        missing += [f"{option}: {needed.name}" for option in unmet(kconfig.parse(needed.read_text()), have)]
    if missing:
        text = "\n".join(missing)
        raise UserError(
            f"{path.name} lacks what {LISTS[0].parent} asks for:\n{text}\n", "add a fragment, or say why not"
        )


def on(configuration: Mapping[str, str]) -> set[str]:
    """Return the options that are built in or modules."""
    return {option for option, value in configuration.items() if value in ("y", "m")}


def unexplained(tree: Path, flavour: Flavour, have: Mapping[str, str], theirs: Path) -> list[str]:
    """Return what a distribution's kernel has, `have` has not, and nobody has given a reason for.

    The reason is in a fragment that turns the option off, or turns off what it depends on, which Kconfig knows; or in
    the list of what takes a patch.
    """
    asked = [kconfig.parse(fragment.read_text()) for fragment in fragments(flavour)]
    named = {option for wishes in asked for option, value in wishes.items() if value == "n"}
    without = tree / ".left-out"
    without.write_text("".join(f"# {option} is not set\n" for option in sorted(named)))
    kconfig.merge(tree, [theirs, without], [])
    kept = on(kconfig.parse((tree / ".config").read_text()))
    return sorted(((on(kconfig.parse(theirs.read_text())) & kept) - on(have)) - named - set(patched()))


def patched() -> dict[str, str]:
    """Return the options of the distribution that only a patch of it gives."""
    return kconfig.parse((DISTRIBUTION / "patched.txt").read_text())


def check_distribution(tree: Path, flavour: Flavour, theirs: Path) -> None:
    """Stop if the flavour lacks what a distribution's kernel has, and no fragment says why."""
    path = complete(flavour)
    have, there = kconfig.parse(path.read_text()), on(kconfig.parse(theirs.read_text()))
    missing = unexplained(tree, flavour, have, theirs)
    if missing:
        text = "\n".join(missing)
        raise UserError(
            f"{path.name} lacks what {theirs} has:\n{text}\n", "turn it on in a fragment, or off with the reason"
        )
    say(
        f"config: {path.name} lacks {len(there - on(have))} of {len(there)} options of {theirs.name}, all with a reason"
    )


def renew(tree: Path, flavour: Flavour) -> None:
    """Write the complete configuration of a flavour, and show what changed in it."""
    path = complete(flavour)
    before = kconfig.parse(path.read_text()) if path.exists() else {}
    try:
        kconfig.generate(tree, path, base(flavour, tree), fragments(flavour), OTHER_TREES)
    except kconfig.ConfigError as error:
        raise UserError(f"the fragments in {FOLDER} ask for what cannot be:\n{error}\n", "fix them") from error
    after = kconfig.parse(path.read_text())
    changed = [option for option in sorted(before.keys() | after.keys()) if before.get(option) != after.get(option)]
    say(f"config: {path.name}, {len(changed)} options changed")
    for option in changed:
        say(f"  {option}: {before.get(option, 'absent')} -> {after.get(option, 'absent')}")
    if flavour == CLOUD:
        check_lists(path)
    for name in COUNTERPARTS.get(flavour, []):
        check_distribution(tree, flavour, DISTRIBUTION / name)


def base_file(path: Path) -> Path:
    """Return the absolute path of a distribution's configuration that was named by the user."""
    try:
        return kconfig.foreign(path.resolve())
    except kconfig.ConfigError as error:
        hint = "give a kernel's configuration, such as BASE_CONFIG=/boot/config-VERSION"
        raise UserError(f"no base to build on: {error}", hint) from None


def try_base(tree: Path, distribution: Path) -> None:
    """Lay the fragments over a distribution's configuration, and show which of its answers change."""
    try:
        kconfig.merge(tree, [distribution], OURS)
    except kconfig.ConfigError as error:
        for line in str(error).splitlines():
            say(f"  {line}")
        hint = "give another configuration, or change it"
        raise UserError(f"{distribution} cannot be the base: see above", hint) from None
    theirs, made = (kconfig.parse(path.read_text()) for path in (distribution, tree / ".config"))
    changed = [option for option in sorted(theirs) if theirs[option] != made.get(option, "n")]
    for option in changed:
        say(f"  {option}: {theirs[option]} -> {made.get(option, 'n')}")
    say(f"config: {distribution} can be the base; {len(changed)} of its {len(theirs)} answers change")


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--base", type=Path, metavar="FILE", help="only try FILE as the base of the package")
    named = parser.parse_args().base
    distribution = base_file(named) if named else None
    with patched_tree() as tree:
        if distribution:
            try_base(tree, distribution)
        else:
            for flavour in FLAVOURS.values():
                renew(tree, flavour)


if __name__ == "__main__":
    main(command)
