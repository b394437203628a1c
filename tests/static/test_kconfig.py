"""The configuration is what the fragments ask for, and every question of Kconfig has an answer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from scripts import kconfig, lock, series
from scripts.console import ROOT

FOLDER = ROOT / "SOURCES" / "config"
COMPLETE = FOLDER / "kernel-x86_64.config"
FRAGMENTS = sorted(FOLDER.glob("[0-9]*.config"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the part of the kernel tree that Kconfig reads."""
    _, patched = series.place(lock.used())
    part = tmp_path_factory.mktemp("tree")
    for name in patched.git("ls-files", "--", "Makefile", "*Kconfig*", "scripts", "arch/x86/configs").splitlines():
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(patched.folder / name, part / name, follow_symlinks=False)
    for name in patched.git("ls-files", "--", "arch/x86/Makefile*", "*/Makefile.compiler", "*.include").splitlines():
        (part / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(patched.folder / name, part / name)
    return part


def fragment(folder: Path, text: str) -> Path:
    path = folder / "99-test.config"
    path.write_text(text)
    return path


def test_complete_configuration_answers_and_grants_everything(tree: Path) -> None:
    kconfig.check(tree, COMPLETE, FRAGMENTS)


def test_complete_configuration_is_what_the_fragments_make(tree: Path, tmp_path: Path) -> None:
    made = tmp_path / "made.config"
    kconfig.generate(tree, made, FRAGMENTS)
    # What Kconfig finds out about the compiler is not an answer.
    probed = re.compile(r"CONFIG_(CC|GCC|CLANG|AS|LD|LLD|RUSTC|PAHOLE|TOOLS|HAVE|ARCH|HAS)_")
    kept, new = (kconfig.parse(path.read_text()) for path in (COMPLETE, made))
    differ = {name for name in kept.keys() | new.keys() if kept.get(name) != new.get(name) and not probed.match(name)}
    assert not differ, "run `make config`"


def test_unknown_option_is_named(tree: Path, tmp_path: Path) -> None:
    wrong = fragment(tmp_path, "CONFIG_THIS_IS_NOT_AN_OPTION=y\n")
    with pytest.raises(kconfig.ConfigError, match=r"CONFIG_THIS_IS_NOT_AN_OPTION: 99-test.config asks for it"):
        kconfig.check(tree, COMPLETE, [*FRAGMENTS, wrong])


def test_option_asked_but_not_granted_is_named(tree: Path, tmp_path: Path) -> None:
    wrong = fragment(tmp_path, "CONFIG_IAVF=m\n# CONFIG_I40EVF is not set\n")
    others = [path for path in FRAGMENTS if not path.name.startswith("34-")]
    with pytest.raises(kconfig.ConfigError, match=r"CONFIG_IAVF: 99-test.config asks for m, Kconfig made it n"):
        kconfig.generate(tree, tmp_path / "made.config", [*others, wrong])
    assert not (tmp_path / "made.config").exists()


def test_unanswered_option_is_named(tree: Path, tmp_path: Path) -> None:
    shorter = tmp_path / "shorter.config"
    shorter.write_text(re.sub(r"(?m)^CONFIG_ZRAM=m\n", "", COMPLETE.read_text()))
    with pytest.raises(kconfig.ConfigError, match=r"CONFIG_ZRAM.*new and unanswered in shorter.config"):
        kconfig.check(tree, shorter, FRAGMENTS)


def test_contradicting_fragments_are_named(tree: Path, tmp_path: Path) -> None:
    wrong = fragment(tmp_path, "CONFIG_ZRAM=y\n")
    with pytest.raises(kconfig.ConfigError, match=r"CONFIG_ZRAM: 70-swap-zram.config asks for m, 99-test.config for y"):
        kconfig.check(tree, COMPLETE, [*FRAGMENTS, wrong])


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_every_group_of_options_has_its_reason(path: Path) -> None:
    for group in re.split(r"\n\n+", path.read_text().strip())[1:]:
        first = group.splitlines()[0]
        reason = first.startswith("# ") and not kconfig.ASSIGNMENT.match(first)
        assert reason or path.read_text().startswith("# "), f"{path.name}: {first} has no reason above it"


def test_spec_lists_every_fragment() -> None:
    spec = (ROOT / "SPECS" / "kernel-thp.spec").read_text()
    numbers = re.findall(r"^Source(\d+): +([0-9][\w-]+\.config)$", spec, re.MULTILINE)
    assert [name for _, name in numbers] == [path.name for path in FRAGMENTS]
    assert all(f"%{{SOURCE{number}}}" in spec for number, _ in numbers)
