"""The spec stands with and without a distribution's macros, and builds one half at a time."""

from __future__ import annotations

import pytest

from scripts import lock, rpms
from tests.package.conftest import run

# Macros that RPM distributions have and this host may lack.
FEDORA = {"dist": ".fc99", "fedora": "99", "__brp_mangle_shebangs": "/usr/lib/rpm/redhat/brp-mangle-shebangs"}


def parse(*options: str) -> str:
    done = run("rpmspec", "-P", *options, str(rpms.SPEC))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_parses_without_distribution_macros() -> None:
    assert f"kernel-thp-uname-r = {lock.read()[0].version}-1.x86_64+thp" in parse("--undefine=dist")


def test_parses_with_distribution_macros() -> None:
    text = parse(*(f"--define={name} {value}" for name, value in FEDORA.items()))
    assert f"kernel-thp-uname-r = {lock.read()[0].version}-1.fc99.x86_64+thp" in text


@pytest.mark.parametrize(("without", "left"), [("kernel", "%files selftests"), ("selftests", "%files core")])
def test_halves_are_built_apart(without: str, left: str) -> None:
    text = parse(f"--without={without}")
    assert [line for line in text.splitlines() if line.startswith("%files")]
    assert left in text
    gone = {"kernel": "%files core", "selftests": "%files selftests"}[without]
    assert gone not in text


def test_another_base_can_be_built() -> None:
    assert "linux-6.1.999.tar.xz" in parse("--define=base 6.1.999")
