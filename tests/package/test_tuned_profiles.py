"""The packages of the tuned profiles: where they install to, what they require, what they leave to the operator."""

from __future__ import annotations

import pytest

from scripts import rpms
from tests.package.conftest import Packages, run

NAME = "tuned-profiles-thp"
PROFILES = ("thp-shrinker", "thp-shrinker-tight", "thp-baseline")
PARTS = ("thp-settings", "thp-khugepaged", "thp-defrag-mode")
VARIABLES = "/etc/tuned/thp-shrinker-variables.conf"
OLD, NEW = "/usr/lib/tuned", "/usr/lib/tuned/profiles"


def parse(*defines: str) -> str:
    done = run("rpmspec", "-P", *(f"--define={define}" for define in defines), str(rpms.TUNED_SPEC))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    ("distribution", "folder", "tuned"),
    [
        ("nothing known", OLD, "tuned < 2.23"),
        ("fedora 42", NEW, "tuned >= 2.23"),
        ("rhel 10", NEW, "tuned >= 2.23"),
        ("rhel 9", OLD, "tuned"),
        ("rhel 8", OLD, "tuned"),
        ("tuned_profiles_dir /opt/profiles", "/opt/profiles", "tuned"),
    ],
)
def test_profiles_are_where_tuned_of_the_distribution_reads_them(distribution: str, folder: str, tuned: str) -> None:
    lines = [" ".join(line.split()) for line in parse(distribution).splitlines()]
    assert f"{folder}/thp-*" in lines
    assert f"Requires: {tuned}" in lines


def test_exactly_the_promised_files(packages: Packages) -> None:
    files = packages.lines(NAME, "--list")
    profiles = {f"{OLD}/{name}" for name in (*PROFILES, *PARTS)}
    profiles |= {f"{folder}/tuned.conf" for folder in profiles}
    program = {f"{OLD}/thp-settings/{name}" for name in ("thp_profile.py", "defaults.conf")}
    program |= {f"{OLD}/{name}/thp_profile" for name in PROFILES}
    (manual,) = files - profiles - program - {VARIABLES}
    assert manual.startswith("/usr/share/man/man7/tuned-profiles-thp.7")


def test_only_the_program_can_be_run(packages: Packages) -> None:
    listed = packages.query(NAME, "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\\n]").splitlines()
    files = dict(reversed(line.split()) for line in listed if line.startswith("-"))
    assert {name for name, mode in files.items() if "x" in mode} == {f"{OLD}/thp-settings/thp_profile.py"}
    assert set(files.values()) == {"-rw-r--r--", "-rwxr-xr-x"}


def test_an_update_keeps_the_operators_values(packages: Packages) -> None:
    assert packages.query(NAME, "--configfiles").split() == [VARIABLES]
    flags = packages.lines(NAME, "--queryformat", "[%{FILENAMES} %{FILEFLAGS:fflags}\\n]")
    assert f"{VARIABLES} cn" in flags  # config, noreplace


def test_installing_the_profiles_changes_nothing_on_a_host(packages: Packages) -> None:
    assert packages.query(NAME, "--scripts").strip() == ""
    assert not any("recommend" in name for name in packages.lines(NAME, "--list"))


def test_recommendation_is_a_package_of_its_own(packages: Packages) -> None:
    files = packages.lines(f"{NAME}-recommend", "--list")
    assert files == {"/usr/lib/tuned/recommend.d/40-thp-shrinker.conf"}
    assert f"{NAME} = 1.0" in packages.lines(f"{NAME}-recommend", "--requires")
    assert packages.query(f"{NAME}-recommend", "--scripts").strip() == ""


def test_program_needs_no_package_but_python(packages: Packages) -> None:
    needed = {line for line in packages.lines(NAME, "--requires") if not line.startswith(("rpmlib(", "config("))}
    assert needed == {"/usr/bin/python3", "python3 >= 3.9", "tuned < 2.23"}
