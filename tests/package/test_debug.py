"""The debug kernel's packages (`make package DEBUG=1`) are whole, and apart from the normal ones."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts import config, kconfig, rpms
from tests.package.conftest import RELEASE, VERSION, Packages, find, run

UNAME = f"{VERSION}-{RELEASE}.x86_64+thp.debug"
MODULES = f"/lib/modules/{UNAME}"
KERNEL = ("kernel-thp-debug", "kernel-thp-debug-core", "kernel-thp-debug-modules")


@pytest.fixture(scope="module")
def debug() -> Packages:
    return find(rpms.REPO_DEBUG)


@pytest.fixture(scope="module")
def unpacked_debug(debug: Packages, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("debug")
    for name in KERNEL[1:]:
        archive = subprocess.run(["rpm2cpio", str(debug.paths[name])], capture_output=True, check=True)
        subprocess.run(["cpio", "-idm", "--quiet"], input=archive.stdout, cwd=root, check=True)
    return root


def test_exactly_the_promised_packages(debug: Packages) -> None:
    assert set(debug.paths) == {*KERNEL, "kernel-thp-selftests"}


@pytest.mark.parametrize("name", KERNEL)
def test_lives_beside_the_normal_kernel(debug: Packages, name: str) -> None:
    files = debug.lines(name, "--list") - {"(contains no files)"}
    assert all(UNAME in file or re.fullmatch("/usr/share/licenses/kernel-thp-debug[^/]*", file) for file in files)
    provided = debug.lines(name, "--provides")
    assert any(line.endswith(f"uname-r = {UNAME}") for line in provided)
    assert any(line.startswith("installonlypkg(kernel") for line in provided)
    # Whoever asks for the normal kernel must not get this one.
    names = {line.split()[0] for line in provided}
    assert not any(re.fullmatch(r"kernel(-thp)?(-core|-modules)?(-uname-r)?", provided_name) for provided_name in names)


def test_parts_ask_for_each_other(debug: Packages) -> None:
    needed = debug.lines("kernel-thp-debug", "--requires")
    assert {f"{name} = {VERSION}-{RELEASE}" for name in KERNEL[1:]} <= needed


def test_configuration_checks_what_it_is_for(unpacked_debug: Path) -> None:
    have = kconfig.parse((unpacked_debug / MODULES[1:] / "config").read_text())
    for path in (config.DEBUG, config.REQUIRED):
        for option, value in kconfig.parse(path.read_text()).items():
            found = have.get(option, "n")
            assert found == value or {found, value} <= set(kconfig.ABSENT), f"{path.name}: {option}"


def test_modules_are_whole(debug: Packages, unpacked_debug: Path) -> None:
    core = {name.removeprefix(f"{MODULES}/") for name in debug.lines(KERNEL[1], "--list") if ".ko" in name}
    assert core
    system_map = unpacked_debug / MODULES[1:] / "System.map"
    done = run("depmod", "-b", str(unpacked_debug), "-e", "-F", str(system_map), UNAME)
    assert done.returncode == 0
    assert "needs unknown symbol" not in done.stderr
    for line in (unpacked_debug / MODULES[1:] / "modules.dep").read_text().splitlines():
        module, _, needed = line.partition(":")
        assert module not in core or set(needed.split()) <= core, module


def test_image_names_this_kernel(unpacked_debug: Path) -> None:
    assert UNAME in run("file", "--brief", str(unpacked_debug / MODULES[1:] / "vmlinuz")).stdout
