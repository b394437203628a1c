"""Make the kernel configuration from its fragments, and refuse one that is not what was asked for.

The complete configuration is kept beside the fragments: the fragments say why, the complete file answers every question
of Kconfig, so that a question nobody has answered is noticed. On a distribution's own configuration only some fragments
are laid, and Kconfig's defaults answer the rest. This file is also a source of the package, where nothing else of the
project is at hand: it uses the standard library only.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ASSIGNMENT = re.compile(r"^(?:(CONFIG_\w+)=(.*)|# (CONFIG_\w+) is not set)$")
DEFINITION = re.compile(r"^\s*(?:menu)?config\s+(\w+)\s*$", re.MULTILINE)
# The smallest configuration Kconfig makes for x86 (tinyconfig) answers many more questions than this.
FEWEST_OPTIONS = 200
# What Kconfig says of an option that is not there, and of one that is an empty string.
ABSENT = ("n", '""')


class ConfigError(Exception):
    """The configuration cannot be used; the text names every option concerned."""


def parse(text: str) -> dict[str, str]:
    """Return the options of a configuration; one that is not set has the value n."""
    found = {}
    for line in text.splitlines():
        match = ASSIGNMENT.match(line)
        if match:
            found[match[1] or match[3]] = match[2] if match[1] else "n"
    return found


def reasons(text: str) -> dict[str, str]:
    """Return the comment above each option: it is the reason of all options up to the next empty line."""
    found = {}
    comment: list[str] = []
    for line in text.splitlines():
        match = ASSIGNMENT.match(line)
        if match:
            found[match[1] or match[3]] = " ".join(comment)
        elif line.startswith("# "):
            comment.append(line[2:])
        else:
            comment = []
    return found


def known_options(tree: Path) -> set[str]:
    """Return every option the tree's Kconfig files define for this architecture."""
    names: set[str] = set()
    for top, folders, files in os.walk(tree):
        if Path(top) == tree / "arch":
            folders[:] = ["x86"]
        for name in files:
            if name.startswith("Kconfig"):
                text = (Path(top) / name).read_text(errors="replace")
                names.update(f"CONFIG_{symbol}" for symbol in DEFINITION.findall(text))
    return names


@dataclass(frozen=True)
class Wish:
    """The value a fragment asks for, and why."""

    value: str
    fragment: str
    reason: str


def asked(fragments: Sequence[Path], known: set[str]) -> dict[str, Wish]:
    """Return what the fragments ask for, by option."""
    wanted: dict[str, Wish] = {}
    wrong = []
    for fragment in fragments:
        text = fragment.read_text()
        why = reasons(text)
        for option, value in parse(text).items():
            wish = Wish(value, fragment.name, why[option])
            if option not in known:
                wrong.append(f"{option}: {fragment.name} asks for it, this kernel has no such option")
            elif option in wanted and wanted[option].value != value:
                other = wanted[option]
                wrong.append(f"{option}: {other.fragment} asks for {other.value}, {fragment.name} for {value}")
            wanted[option] = wish
    if wrong:
        raise ConfigError("\n".join(wrong))
    return wanted


def make(tree: Path, *targets: str) -> str:
    """Run one of the tree's own configuration targets."""
    done = subprocess.run(["make", "-s", "-C", str(tree), *targets], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ConfigError(f"make {' '.join(targets)} failed:\n{done.stderr.strip()}")
    return done.stdout


def verify(tree: Path, wanted: dict[str, Wish]) -> None:
    """Stop at an option that was asked for and is not in the tree's .config."""
    have = parse((tree / ".config").read_text())
    missing = []
    for option, wish in wanted.items():
        value = have.get(option, "n")
        if value != wish.value and not (value in ABSENT and wish.value in ABSENT):
            asks = f"{option}: {wish.fragment} asks for {wish.value}, Kconfig made it {value}"
            missing.append(f"{asks} ({wish.reason})" if wish.reason else asks)
    if missing:
        raise ConfigError("\n".join(missing))


def check(tree: Path, config: Path, fragments: Sequence[Path]) -> None:
    """Put the complete configuration into the tree, and stop at any option unanswered, unknown or not granted.

    An option that depends on what is installed on the build host may be missing in the complete configuration, because
    it was made where there is no such question. Then the fragments have the answer.
    """
    wanted = asked(fragments, known_options(tree))
    complete = config.read_text()
    absent = wanted.keys() - parse(complete).keys()
    refused = "".join(f"# {option} is not set\n" for option in sorted(absent) if wanted[option].value == "n")
    (tree / ".config").write_text(complete + refused)
    new = [line for line in make(tree, "listnewconfig").splitlines() if line.startswith("CONFIG_")]
    if new:
        raise ConfigError("\n".join(f"{line}: new and unanswered in {config.name}" for line in new))
    make(tree, "olddefconfig")
    verify(tree, wanted)


def merge(tree: Path, base: Sequence[Path], fragments: Sequence[Path]) -> None:
    """Put the base, then the fragments into the tree; only what the fragments ask for has to be granted."""
    wanted = asked(fragments, known_options(tree))
    (tree / ".config").write_text("".join(f"{piece.read_text()}\n" for piece in (*base, *fragments)))
    make(tree, "olddefconfig")
    verify(tree, wanted)


def generate(
    tree: Path, config: Path, base: Sequence[Path], fragments: Sequence[Path], elsewhere: Path | None = None
) -> None:
    """Write the complete configuration: the base, then the fragments.

    `elsewhere` answers what Kconfig asks in some trees only: it is laid over the base, whose distribution may answer
    otherwise, and what this tree does not ask of it ends the file.
    """
    merge(tree, [*base, *([elsewhere] if elsewhere else [])], fragments)
    answers = [line for line in (tree / ".config").read_text().splitlines() if not line.startswith("# Linux/")]
    if elsewhere:
        answered = parse("\n".join(answers))
        others = {name: value for name, value in parse(elsewhere.read_text()).items() if name not in answered}
        answers += [f"# {name} is not set" if value == "n" else f"{name}={value}" for name, value in others.items()]
    part = config.with_suffix(".part")
    part.write_text("\n".join(answers) + "\n")
    part.replace(config)


def foreign(path: Path) -> Path:
    """Return a configuration that is not ours, after a look at whether it can be one for this kernel."""
    try:
        options = parse(path.read_text())
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        options = {}
    if len(options) < FEWEST_OPTIONS:
        raise ConfigError(f"{path}: not the configuration of a kernel")
    if options.get("CONFIG_X86_64", "n") != "y":
        raise ConfigError(f"{path}: a configuration for another architecture than x86_64")
    return path


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tree", type=Path, required=True, help="kernel tree; its .config is written")
    start = parser.add_mutually_exclusive_group(required=True)
    start.add_argument("--config", type=Path, help="a complete configuration, to be checked against the fragments")
    start.add_argument("--base", type=Path, help="a distribution's configuration, to lay the fragments over")
    parser.add_argument("fragments", nargs="+", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = command_line()
    try:
        if arguments.base:
            merge(arguments.tree, [foreign(arguments.base)], sorted(arguments.fragments))
        else:
            check(arguments.tree, arguments.config, sorted(arguments.fragments))
    except ConfigError as error:
        sys.exit(f"error: the kernel configuration is not what was asked for:\n{error}")
