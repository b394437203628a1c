"""Each line of core-modules.txt names modules of the flavour it is for, by the Makefiles of the tree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import config, kconfig, lock, rpms, series
from scripts.flavours import CLOUD, SERVER
from scripts.split_modules import split

LINES = [line for line in rpms.CORE_MODULES.read_text().splitlines() if line and not line.startswith("#")]
BUILT = re.compile(r"^[ \t]*obj-\$\((CONFIG_\w+)\)", re.MULTILINE)


def modules(folder: Path, flavour: dict[str, str]) -> list[str]:
    """Return the options of a directory's Makefiles that the flavour builds as modules."""
    texts = (path.read_text() for path in folder.rglob("Makefile"))
    return [option for text in texts for option in BUILT.findall(text) if flavour.get(option) == "m"]


@pytest.mark.parametrize("line", LINES)
def test_a_line_names_modules(line: str) -> None:
    entry, _, flavour = line.partition(" ")
    assert flavour in {"", CLOUD.name}
    built = kconfig.parse(config.complete(CLOUD if flavour else SERVER).read_text())
    _, tree = series.place(lock.used())
    assert modules(tree.folder / entry, built)


def test_a_line_without_modules_is_refused() -> None:
    needs = {"kernel/fs/xfs/xfs.ko.zst": ["kernel/lib/libcrc32c.ko.zst"], "kernel/lib/libcrc32c.ko.zst": []}
    assert split(needs, ["fs", "drivers/message cloud"]) == (set(needs), set())
    with pytest.raises(SystemExit, match="names drivers/message, but"):
        split(needs, ["fs", "drivers/message"])
