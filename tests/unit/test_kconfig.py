"""The configuration is what the fragments ask for, and every question of Kconfig has an answer."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from scripts import kconfig
from scripts.config import FOLDER, OTHER_TREES, OURS, REQUIRED, base, complete, fragments
from scripts.console import ROOT
from scripts.flavours import FLAVOURS, SERVER, Flavour
from tests.unit import kconfig_tree

KERNELS = pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=lambda flavour: flavour.name)
COMPLETE = complete(SERVER)
FRAGMENTS = fragments(SERVER)
EVERY_FRAGMENT = [*sorted(FOLDER.glob("*/*.config")), REQUIRED]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kconfig_tree.copy(tmp_path_factory.mktemp("tree"))


def fragment(folder: Path, text: str) -> Path:
    path = folder / "99-test.config"
    path.write_text(text)
    return path


@KERNELS
def test_complete_configuration_answers_and_grants_everything(tree: Path, flavour: Flavour) -> None:
    kconfig.check(tree, complete(flavour), fragments(flavour))


@KERNELS
def test_complete_configuration_is_what_the_fragments_make(tree: Path, tmp_path: Path, flavour: Flavour) -> None:
    made = tmp_path / "made.config"
    kconfig.generate(tree, made, base(flavour, tree), fragments(flavour), OTHER_TREES)
    # What Kconfig finds out about the compiler is not an answer.
    probed = re.compile(r"CONFIG_(CC|GCC|CLANG|AS|LD|LLD|RUSTC|PAHOLE|TOOLS|HAVE|ARCH|HAS)_")
    kept, new = (kconfig.parse(path.read_text()) for path in (complete(flavour), made))
    differ = {name for name in kept.keys() | new.keys() if kept.get(name) != new.get(name) and not probed.match(name)}
    assert not differ, "run `make config`"


def test_unknown_option_is_named(tree: Path, tmp_path: Path) -> None:
    wrong = fragment(tmp_path, "CONFIG_THIS_IS_NOT_AN_OPTION=y\n")
    with pytest.raises(kconfig.ConfigError, match=r"CONFIG_THIS_IS_NOT_AN_OPTION: 99-test.config asks for it"):
        kconfig.check(tree, COMPLETE, [*FRAGMENTS, wrong])


def test_option_asked_but_not_granted_is_named(tree: Path, tmp_path: Path) -> None:
    wrong = fragment(tmp_path, "CONFIG_IAVF=m\n# CONFIG_I40EVF is not set\n")
    with pytest.raises(kconfig.ConfigError, match=r"CONFIG_IAVF: 99-test.config asks for m, Kconfig made it n"):
        kconfig.generate(tree, tmp_path / "made.config", base(SERVER, tree), [*FRAGMENTS, wrong])
    assert not (tmp_path / "made.config").exists()


def test_unanswered_option_is_named(tree: Path, tmp_path: Path) -> None:
    shorter = tmp_path / "shorter.config"
    shorter.write_text(re.sub(r"(?m)^CONFIG_ZSWAP=y\n", "", COMPLETE.read_text()))
    with pytest.raises(kconfig.ConfigError, match=r"CONFIG_ZSWAP.*new and unanswered in shorter.config"):
        kconfig.check(tree, shorter, FRAGMENTS)


@KERNELS
def test_headers_of_gcc_plugins_on_the_build_host_change_nothing(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flavour: Flavour
) -> None:
    """Kconfig asks the compiler where they are, so a compiler that has them is put in front."""
    headers = tmp_path / "plugin" / "include" / "plugin-version.h"
    headers.parent.mkdir(parents=True)
    headers.touch()
    gcc = tmp_path / "gcc"
    answer = f'case "$*" in *-print-file-name=plugin*) echo {tmp_path}/plugin; exit ;; esac'
    gcc.write_text(f'#!/bin/sh\n{answer}\nexec {shutil.which("gcc")} "$@"\n')
    gcc.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    kconfig.check(tree, complete(flavour), fragments(flavour))
    plugins = {
        name: value for name, value in kconfig.parse((tree / ".config").read_text()).items() if "_GCC_PLUGIN" in name
    }
    assert plugins == {"CONFIG_HAVE_GCC_PLUGINS": "y", "CONFIG_GCC_PLUGINS": "n"}


def test_contradicting_fragments_are_named(tree: Path, tmp_path: Path) -> None:
    wrong = fragment(tmp_path, "CONFIG_ZSWAP=m\n")
    with pytest.raises(kconfig.ConfigError, match=r"CONFIG_ZSWAP: 70-swap-zram.config asks for y, 99-.*config for m"):
        kconfig.check(tree, COMPLETE, [*FRAGMENTS, wrong])


def changed(folder: Path, text: str) -> Path:
    """Return our configuration with another answer or two, as if it were a distribution's."""
    path = folder / "distribution.config"
    path.write_text(f"{COMPLETE.read_text()}\n{text}")
    return path


def test_required_option_that_is_lost_is_named_with_its_reason(tree: Path, tmp_path: Path) -> None:
    without = tmp_path / "without.config"
    without.write_text(COMPLETE.read_text().replace("CONFIG_MEMCG=y", "# CONFIG_MEMCG is not set"))
    with pytest.raises(kconfig.ConfigError, match=r"CONFIG_MEMCG: .* asks for y, .* n \(The split queues"):
        kconfig.check(tree, without, [REQUIRED])


REQUIREMENTS = kconfig.parse(REQUIRED.read_text())


@pytest.mark.parametrize("option", REQUIREMENTS)
def test_every_required_option_is_looked_for(tmp_path: Path, option: str) -> None:
    """And has a reason, which is what the user is told."""
    wanted = kconfig.asked([REQUIRED], set(REQUIREMENTS))
    answers = {name: value for name, value in REQUIREMENTS.items() if name != option}
    # An empty string is as good as none, so it needs another answer than none.
    wrong = "n" if REQUIREMENTS[option] not in kconfig.ABSENT else '"distribution.pem"'
    lines = [f"{name}={value}\n" for name, value in {**answers, option: wrong}.items()]
    (tmp_path / ".config").write_text("".join(lines))
    with pytest.raises(kconfig.ConfigError) as caught:
        kconfig.verify(tmp_path, wanted)
    assert str(caught.value).startswith(f"{option}: required.config asks for")
    assert str(caught.value).endswith(".)")


def test_what_the_selftests_need_is_required() -> None:
    needed = kconfig.parse((ROOT / "tests" / "selftests" / "config").read_text())
    missing = {option for option, value in needed.items() if REQUIREMENTS.get(option) != value}
    kept = kconfig.parse("".join(path.read_text() for path in OURS))
    assert {option for option in missing if kept.get(option) != needed[option]} == set()


def test_distributions_configuration_gets_our_options_and_keeps_its_own(tree: Path, tmp_path: Path) -> None:
    theirs = changed(tmp_path, "# CONFIG_MEMCG is not set\n# CONFIG_SHRINKER_DEBUG is not set\nCONFIG_HZ_1000=y\n")
    kconfig.merge(tree, [kconfig.foreign(theirs)], OURS)
    made = kconfig.parse((tree / ".config").read_text())
    assert (made["CONFIG_MEMCG"], made["CONFIG_SHRINKER_DEBUG"], made["CONFIG_HZ_1000"]) == ("y", "y", "y")


def test_distributions_configuration_that_loses_an_option_is_refused(tree: Path, tmp_path: Path) -> None:
    theirs = changed(tmp_path, "# CONFIG_BLK_DEV is not set\n")
    with pytest.raises(kconfig.ConfigError, match=r"CONFIG_ZRAM: required.config asks for m, .* n \(.*swap to zram"):
        kconfig.merge(tree, [theirs], OURS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file or directory"),
        (b"root:x:0:0\n" * 500, "not the configuration of a kernel"),
        (b"\x7fELF\xff\xfe" * 500, "not the configuration of a kernel"),
        (b"".join(b"CONFIG_A%d=y\n" % number for number in range(500)), "another architecture than x86_64"),
    ],
    ids=["missing", "text", "binary", "architecture"],
)
def test_file_that_cannot_be_a_base_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "base.config"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(kconfig.ConfigError, match=f"^{path}: .*{message}$"):
        kconfig.foreign(path)


def without_reason(text: str) -> list[str]:
    """Return the first lines of the groups of options that have no comment above them.

    The title of a file is the reason of its group of options if there is only one.
    """
    title, *groups = re.split(r"\n\n+", text.strip())
    firsts = [part.splitlines()[0] for part in ([title] if len(groups) == 1 else [title, *groups])]
    return [first for first in firsts if not first.startswith("# ") or kconfig.ASSIGNMENT.match(first)]


@pytest.mark.parametrize("path", EVERY_FRAGMENT, ids=lambda path: path.name)
def test_every_group_of_options_has_its_reason(path: Path) -> None:
    assert without_reason(path.read_text()) == []


def test_a_group_without_a_reason_is_found() -> None:
    assert without_reason("# Title.\n\nCONFIG_A=y\n") == []
    assert without_reason("# Title.\n\n# Why.\nCONFIG_A=y\n\nCONFIG_B=y\n") == ["CONFIG_B=y"]
    assert without_reason("# Title.\n\n# CONFIG_A is not set\n\n# Why.\nCONFIG_B=y\n") == ["# CONFIG_A is not set"]
    assert without_reason("CONFIG_A=y\n\nCONFIG_B=y\n") == ["CONFIG_A=y"]


def test_every_fragment_belongs_to_a_flavour_and_has_a_name_of_its_own() -> None:
    """The sources of a package lie in one directory, whatever folder they come from."""
    names = [path.name for path in EVERY_FRAGMENT]
    assert sorted(set(names)) == sorted(names)
    used = {path for flavour in FLAVOURS.values() for path in fragments(flavour)}
    assert used == set(EVERY_FRAGMENT)


@KERNELS
def test_fragments_are_sorted_by_name_and_the_required_ones_come_last(flavour: Flavour) -> None:
    *own, last = fragments(flavour)
    assert [path.name for path in own] == sorted(path.name for path in own)
    assert last == REQUIRED


def test_spec_lists_every_fragment() -> None:
    spec = (ROOT / "SPECS" / "kernel-thp.spec").read_text()
    numbers = re.findall(r"^Source(\d+): +([0-9][\w-]+\.config)$", spec, re.MULTILINE)
    assert {name for _, name in numbers} == {path.name for path in EVERY_FRAGMENT if path != REQUIRED}
    assert all(f"%{{SOURCE{number}}}" in spec for number, _ in numbers)
