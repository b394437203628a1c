"""The spec works with and without a distribution's macros, and builds one half at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import lock, rpms
from scripts.flavours import FLAVOURS, Flavour
from tests.package.conftest import run

# Macros that RPM distributions have and this host may lack.
FEDORA = {"dist": ".fc99", "fedora": "99", "__brp_mangle_shebangs": "/usr/lib/rpm/redhat/brp-mangle-shebangs"}


def parse(*options: str) -> str:
    done = run("rpmspec", "-P", *options, str(rpms.SPEC))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_parses_without_distribution_macros() -> None:
    assert f"kernel-thp-cloud-uname-r = {lock.read()[0].version}-1.x86_64+thp.cloud\n" in parse("--undefine=dist")


def test_parses_with_distribution_macros() -> None:
    text = parse(*(f"--define={name} {value}" for name, value in FEDORA.items()))
    assert f"kernel-thp-cloud-uname-r = {lock.read()[0].version}-1.fc99.x86_64+thp.cloud\n" in text


@pytest.mark.parametrize(
    ("without", "left"),
    [("kernel", "%files -n kernel-thp-selftests"), ("selftests", "%files -n kernel-thp-cloud-core")],
)
def test_halves_are_built_apart(without: str, left: str) -> None:
    text = parse(f"--without={without}")
    assert [line for line in text.splitlines() if line.startswith("%files")]
    assert left in text
    gone = {"kernel": "%files -n kernel-thp-cloud-core", "selftests": "%files -n kernel-thp-selftests"}[without]
    assert gone not in text


def test_another_base_can_be_built() -> None:
    assert "linux-6.1.999.tar.xz" in parse("--define=base 6.1.999")


def test_server_flavour_is_another_kernel() -> None:
    text = parse("--with=server")
    assert "%files -n kernel-thp-core" in text
    assert "\n%package -n kernel-thp\n" not in text
    assert "/kernel-x86_64-server.config" in text


@pytest.mark.parametrize("flavour", FLAVOURS.values(), ids=FLAVOURS)
def test_the_package_that_users_name_brings_both_halves(flavour: Flavour) -> None:
    """As rpm understands the spec: the same lines below %description would be text."""
    form = "[%{=NAME} requires %{REQUIRENEVRS}\\n][%{=NAME} provides %{PROVIDENEVRS}\\n]"
    done = run("rpmspec", "-q", "--undefine=dist", f"--queryformat={form}", *flavour.rpmbuild, str(rpms.SPEC))
    assert done.returncode == 0, done.stderr
    release = f"{lock.read()[0].version}-1"
    needed = {f"requires {flavour.package}-{half} = {release}" for half in ("core", "modules")}
    uname = f"provides {flavour.package}-uname-r = {release}.x86_64{flavour.suffix}"
    expected = {*needed, uname, "provides installonlypkg(kernel)"}
    assert {f"{flavour.package} {what}" for what in expected} <= set(done.stdout.splitlines())


@pytest.mark.parametrize("options", [[], ["--with=server"], ["--with=debug"], ["--without=kernel"]])
def test_every_flavour_has_the_same_source_package(options: list[str]) -> None:
    done = run("rpmspec", "-q", "--srpm", "--undefine=dist", "--queryformat", "%{NVR}", *options, str(rpms.SPEC))
    assert done.stdout == f"kernel-thp-{lock.read()[0].version}-1"


def test_debug_information_can_be_left_out() -> None:
    assert "%files -n kernel-thp-cloud-debuginfo" in parse()
    assert "debuginfo" not in parse("--without=debuginfo")


def test_one_flavour_is_built_at_a_time() -> None:
    done = run("rpmspec", "-P", "--with=debug", "--with=server", str(rpms.SPEC))
    assert done.returncode != 0
    assert "one flavour at a time" in done.stderr


def test_debug_flavour_is_another_kernel() -> None:
    text = parse("--with=debug")
    assert "\n%package -n kernel-thp-debug\n" in text
    assert f"kernel-thp-debug-uname-r = {lock.read()[0].version}-1.x86_64+thp.debug" in text
    assert "%package -n kernel-thp-debug-devel" not in text
    assert "/kernel-x86_64-debug.config" in text


def test_next_release_has_another_name() -> None:
    provided = f"kernel-thp-cloud-core-uname-r = {lock.read()[0].version}-2.x86_64+thp.cloud\n"
    assert provided in parse("--define=spin 2")


def test_base_configuration_takes_the_place_of_ours(tmp_path: Path) -> None:
    base = tmp_path / "base.config"
    base.touch()
    text = parse("--with=server", f"--define=base_config {base}")
    assert f"--base '{base}'" in text
    assert "/kernel-x86_64-server.config" not in text


def test_unreadable_base_configuration_is_named_before_anything_is_done(tmp_path: Path) -> None:
    missing = tmp_path / "missing.config"
    done = run("rpmspec", "-P", "--with=server", f"--define=base_config {missing}", str(rpms.SPEC))
    assert done.returncode != 0
    assert f"base_config: cannot read {missing}; give the configuration of a kernel" in done.stderr


def test_debug_kernel_has_one_configuration_only(tmp_path: Path) -> None:
    base = tmp_path / "base.config"
    base.touch()
    done = run("rpmspec", "-P", "--with=debug", f"--define=base_config {base}", str(rpms.SPEC))
    assert done.returncode != 0
    assert "base_config is for the server flavour" in done.stderr
