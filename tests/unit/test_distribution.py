"""What is kept of a distribution's configurations is their answers, from the package that is pinned."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from scripts import distribution, kconfig
from scripts.config import DISTRIBUTION
from scripts.console import UserError


@pytest.mark.parametrize("name", distribution.INSIDE)
def test_kept_answers_are_of_the_pinned_package(name: str) -> None:
    package = distribution.pinned()
    origin, *answers = (DISTRIBUTION / f"{name}.txt").read_text().splitlines()
    assert origin.startswith(f"# {distribution.INSIDE[name]} of {package.name} {package.version};")
    assert [line for line in answers if not kconfig.ASSIGNMENT.match(line)] == []


def test_titles_and_remarks_are_not_kept(tmp_path: Path) -> None:
    archive = tmp_path / "config.xz"
    text = (
        "# Linux/x86 6.1 Configuration\nCONFIG_A=y\n#\n# Title\n#\n# CONFIG_B is not set\n# end of Title\nCONFIG_C=m\n"
    )
    archive.write_bytes(lzma.compress(text.encode()))
    _, *answers = distribution.answers(archive, distribution.Package("config", "1", "0")).splitlines()
    assert answers == ["CONFIG_A=y", "# CONFIG_B is not set", "CONFIG_C=m"]


def test_pin_that_is_none_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin = tmp_path / "pin.txt"
    pin.write_text("linux-config-6.1 6.1.192-2\n")
    monkeypatch.setattr(distribution, "PIN", pin)
    with pytest.raises(UserError, match=rf"{pin} is not 'name version sha256'"):
        distribution.pinned()
