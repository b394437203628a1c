"""Make the kernel configuration from its fragments, and refuse one that is not what was asked for.

The complete configuration is kept beside the fragments: the fragments say why, the complete file answers every question
of Kconfig, so that a question nobody has answered is noticed. This file is also a source of the package, where nothing
else of the project is at hand: it uses the standard library only.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ASSIGNMENT = re.compile(r"^(?:(CONFIG_\w+)=(.*)|# (CONFIG_\w+) is not set)$")
DEFINITION = re.compile(r"^\s*(?:menu)?config\s+(\w+)\s*$", re.MULTILINE)
DEFCONFIG = Path("arch/x86/configs/x86_64_defconfig")


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


def asked(fragments: Sequence[Path], known: set[str]) -> dict[str, tuple[str, str]]:
    """Return what the fragments ask for, as option -> (value, fragment)."""
    wanted: dict[str, tuple[str, str]] = {}
    wrong = []
    for fragment in fragments:
        for option, value in parse(fragment.read_text()).items():
            if option not in known:
                wrong.append(f"{option}: {fragment.name} asks for it, this kernel has no such option")
            elif option in wanted and wanted[option][0] != value:
                wrong.append(f"{option}: {wanted[option][1]} asks for {wanted[option][0]}, {fragment.name} for {value}")
            wanted[option] = (value, fragment.name)
    if wrong:
        raise ConfigError("\n".join(wrong))
    return wanted


def make(tree: Path, *targets: str) -> str:
    """Run one of the tree's own configuration targets."""
    done = subprocess.run(["make", "-s", "-C", str(tree), *targets], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ConfigError(f"make {' '.join(targets)} failed:\n{done.stderr.strip()}")
    return done.stdout


def verify(tree: Path, wanted: dict[str, tuple[str, str]]) -> None:
    """Stop at an option that was asked for and is not in the tree's .config."""
    have = parse((tree / ".config").read_text())
    missing = [
        f"{option}: {fragment} asks for {value}, Kconfig made it {have.get(option, 'n')}"
        for option, (value, fragment) in wanted.items()
        if have.get(option, "n") != value
    ]
    if missing:
        raise ConfigError("\n".join(missing))


def check(tree: Path, config: Path, fragments: Sequence[Path]) -> None:
    """Put the complete configuration into the tree, and stop at any option unanswered, unknown or not granted."""
    wanted = asked(fragments, known_options(tree))
    shutil.copyfile(config, tree / ".config")
    new = [line for line in make(tree, "listnewconfig").splitlines() if line.startswith("CONFIG_")]
    if new:
        raise ConfigError("\n".join(f"{line}: new and unanswered in {config.name}" for line in new))
    make(tree, "olddefconfig")
    verify(tree, wanted)


def generate(tree: Path, config: Path, fragments: Sequence[Path]) -> None:
    """Write the complete configuration anew: the kernel's default for this architecture, then the fragments."""
    wanted = asked(fragments, known_options(tree))
    pieces = [tree / DEFCONFIG, *fragments]
    (tree / ".config").write_text("".join(piece.read_text() for piece in pieces))
    make(tree, "olddefconfig")
    verify(tree, wanted)
    answers = [line for line in (tree / ".config").read_text().splitlines() if not line.startswith("# Linux/")]
    part = config.with_suffix(".part")
    part.write_text("\n".join(answers) + "\n")
    part.replace(config)


def command_line() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("action", choices=["check", "generate"])
    parser.add_argument("--tree", type=Path, required=True, help="kernel tree; its .config is written")
    parser.add_argument("--config", type=Path, required=True, help="the complete configuration")
    parser.add_argument("fragments", nargs="+", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    arguments = command_line()
    try:
        action = check if arguments.action == "check" else generate
        action(arguments.tree, arguments.config, sorted(arguments.fragments))
    except ConfigError as error:
        sys.exit(f"error: the kernel configuration is not what was asked for; mend SOURCES/config/:\n{error}")
