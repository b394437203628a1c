"""The packages of the tuned profiles: where they install to, what they require, what they leave to the operator."""

from __future__ import annotations

import posixpath

from tests.package.conftest import Packages

NAME = "tuned-profiles-thp"
PROFILES = ("thp-shrinker", "thp-shrinker-tight", "thp-baseline")
PARTS = ("thp-settings", "thp-khugepaged", "thp-defrag-mode")
VARIABLES = "/etc/tuned/thp-shrinker-variables.conf"
# tuned before 2.23 and on RHEL 9 looks for profiles in the first one, all others in the second one.
OLD, NEW = "/usr/lib/tuned", "/usr/lib/tuned/profiles"


def promised(folder: str) -> set[str]:
    """Return the files of the profiles and their parts below one of the directories."""
    names = {f"{name}/tuned.conf" for name in (*PROFILES, *PARTS)} | {f"{name}/thp_profile" for name in PROFILES}
    return {f"{folder}/{name}" for name in names | {"thp-settings/thp_profile.py", "thp-settings/defaults.conf"}}


def test_exactly_the_promised_files(packages: Packages) -> None:
    listed = packages.query(NAME, "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\n]").splitlines()
    files = {line.split()[1] for line in listed if not line.startswith("d")}
    assert promised(OLD) | promised(NEW) <= files
    (manual,) = files - promised(OLD) - promised(NEW) - {VARIABLES}
    assert manual.startswith("/usr/share/man/man7/tuned-profiles-thp.7")


def test_every_version_of_tuned_finds_the_same_files(packages: Packages) -> None:
    listed = packages.query(NAME, "--queryformat", "[%{FILENAMES} %{FILELINKTOS}\n]").splitlines()
    links = dict(line.split() for line in listed if len(line.split()) == 2)
    assert set(links) == promised(OLD) | {f"{NEW}/{name}/thp_profile" for name in PROFILES}
    for name, target in links.items():
        leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
        profile, file = name.split("/")[-2:]
        expected = "thp-settings/thp_profile.py" if file == "thp_profile" else f"{profile}/{file}"
        assert leads_to == f"{NEW}/{expected}", name


def test_only_the_program_can_be_run(packages: Packages) -> None:
    listed = packages.query(NAME, "--queryformat", "[%{FILEMODES:perms} %{FILENAMES}\n]").splitlines()
    files = {name: mode for mode, name in (line.split() for line in listed) if mode.startswith("-")}
    assert {name for name, mode in files.items() if "x" in mode} == {f"{NEW}/thp-settings/thp_profile.py"}
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
    assert needed == {"/usr/bin/python3", "python3 >= 3.9", "tuned"}
