"""The repository on a host, by real dnf and rpm: no other one is used, and no key that nobody has accepted."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, held, packages, repo_setup
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.modules import repository as module
from ansible_collections.kernel_thp.fleet.plugins.plugin_utils.journal import LONGEST_REASON

from scripts import signing
from tests.unit.toys import BEFORE, DEPENDENCY, MADE, OURS, SOURCES, Host, host, repository

__all__ = ["host", "repository"]

DEAD = "[dead]\nname=dead\nbaseurl=file:///nonexistent\nenabled=1\n"
TARGET = {"release": "1-1", "uname": "1", "packages": [OURS], "repositories": SOURCES}


def find(check: bool = False, **given: object) -> dict[str, Any]:
    """Find the newest release, as preflight does."""
    defaults = {name: option.get("default") for name, option in module.ARGUMENTS.items()}
    known = {"repositories": SOURCES, "kernel_packages": ["ours"], **given}
    return dict(module.work({**defaults, **known}, check))


def keys(host: Host) -> list[str]:
    done = subprocess.run([host.bin / "rpm", "-q", "gpg-pubkey"], capture_output=True, text=True, check=False)
    return done.stdout.split() if done.returncode == 0 else []


def forget_keys(host: Host) -> None:
    subprocess.run([host.bin / "rpm", "-e", *keys(host)], check=True)


# Only this repository, only these keys


def test_a_repository_of_others_that_is_down_does_not_matter(host: Host) -> None:
    host.install()
    (host.repositories / "dead.repo").write_text(DEAD)
    assert find()["target"] == TARGET
    # Back as well, where every repository that answers may be needed.
    host.restore()
    assert packages.installed() == BEFORE


def test_dnf_imports_no_key_that_a_repository_names(host: Host) -> None:
    forget_keys(host)
    with pytest.raises(Problem, match=r"Public key for|GPG"):
        host.install()
    assert keys(host) == []
    assert packages.installed() == BEFORE


def test_a_package_that_somebody_else_signed_is_named(host: Host, repository: Path, tmp_path: Path) -> None:
    place = tmp_path / "repo"
    shutil.copytree(repository / "repo", place)
    (package,) = place.rglob(f"{OURS}.rpm")
    with tempfile.TemporaryDirectory(prefix="kt") as stranger, signing.keyring(Path(stranger)) as home:
        signing.sign_packages(home, [package])
    subprocess.run(["createrepo_c", "--quiet", str(place)], check=True)
    with signing.keyring(repository / "gnupg") as home:
        signing.sign_file(home, place / "repodata" / "repomd.xml")
    file = host.repositories / "toys.repo"
    file.write_text(file.read_text().replace(str(repository / "repo"), str(place)))
    with pytest.raises(Problem, match=f"dnf install ended with 1: .*{OURS}.*check the packages' signatures"):
        packages.download([OURS], 60, SOURCES)


@pytest.mark.parametrize("check", [False, True])
def test_metadata_needs_a_key_that_rpm_has(host: Host, check: bool) -> None:
    assert find(check)["target"] == TARGET
    forget_keys(host)
    # With the key that dnf has accepted for metadata, which `dnf clean` leaves there.
    shutil.rmtree(host.cache)
    with pytest.raises(Problem, match=r"the repository cannot be used: .*rpm --import"):
        find(check)
    assert keys(host) == []


def test_an_unknown_repository_comes_with_what_to_do(host: Host) -> None:
    with pytest.raises(Problem, match=r"Unknown repo: 'thp'; put its file into .* thp_preflight_repository_url"):
        find(repositories=["thp"])


def test_what_only_other_repositories_have_is_missing_until_these_are_named(
    host: Host, repository: Path, tmp_path: Path
) -> None:
    (package,) = (repository / "repo").rglob(f"{DEPENDENCY}*.rpm")
    for name, chosen in (("few", sorted((repository / "repo").rglob("*.rpm"))), ("rest", [package])):
        (tmp_path / name).mkdir()
        for path in chosen:
            if (path == package) == (name == "rest"):
                (tmp_path / name / path.name).symlink_to(path)
        subprocess.run(["createrepo_c", "--quiet", tmp_path / name], check=True)
        if name == "few":
            with signing.keyring(repository / "gnupg") as home:
                signing.sign_file(home, tmp_path / name / "repodata" / "repomd.xml")
        (host.repositories / f"{name}.repo").write_text(f"[{name}]\nname={name}\nbaseurl=file://{tmp_path / name}\n")
    # Only the rollout's own repository has to sign its metadata.
    with pytest.raises(Problem, match=rf"nothing provides {DEPENDENCY}.*thp_preflight_dependency_repositories"):
        find(check=True, repositories=["few"])
    found = find(check=True, repositories=["few"], dependencies=["rest"])
    assert found["target"] == {**TARGET, "repositories": ["few", "rest"]}


# What the host's configuration holds back


@pytest.mark.parametrize("option", ["exclude", "excludepkgs"])
def test_an_exclude_is_named_with_its_line(host: Host, monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    monkeypatch.setattr(held, "ROOT", host.root)
    path = host.root / "etc" / "dnf" / "dnf.conf"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"[main]\n# not this: exclude=our*\n{option} = x*, our*\n")
    with pytest.raises(Problem, match=rf"let ours through, which this holds back: {path} line 3: {option} = x"):
        find(check=True)
    with pytest.raises(Problem, match=f"{path} line 3"):
        host.install()
    assert packages.installed() == BEFORE


def test_what_holds_a_package_back_has_room_in_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "/etc/dnf/dnf.conf line 2: exclude=bash kernel*"
    monkeypatch.setattr(held, "back", lambda *_: [line])
    said = "".join(f"Problem: package {number} needs {'x' * 200}\n" for number in range(3))
    names = (
        "kernel-thp-cloud",
        "kernel-thp-cloud-core",
        "kernel-thp-cloud-modules",
        "kernel-thp-selftests",
        "tuned-profiles-thp",
    )
    words = ["install", *(f"{name}-6.1.187-1.x86_64" for name in names)]
    problem = packages.failure(words, command.Done(1, "", said), "", ["kernel-thp"])
    assert line in str(problem)[:LONGEST_REASON]


FILTERED = "All matches were filtered out by exclude filtering for argument: kernel-thp-cloud-core-6.1.187-1.x86_64\n"
CORE = "kernel-thp-cloud-core-6.1.187-1.x86_64"


@pytest.mark.parametrize(
    ("file", "content", "line"),
    [
        ("etc/dnf/plugins/versionlock.list", "# locks\nkernel-thp-cloud-core-0:6.1.180-1.*\n", 2),
        ("etc/dnf/plugins/versionlock.list", "bash-0:5.1-1.*\n!kernel-thp-cloud-core-0:6.1.187-1.*\n", 2),
        ("etc/dnf/versionlock.toml", 'version = "1.0"\n[[packages]]\nname = "kernel-thp*"\n', 3),
        ("etc/dnf/dnf.conf", "[main]\nexcludepkgs=bash\n  kernel*\n", 3),
        ("etc/yum.repos.d/a.repo", "[other]\nexclude=kernel*\n[kernel-thp]\nincludepkgs=tuned*\n", 4),
    ],
)
def test_every_place_where_dnf_keeps_a_package_back_is_read(tmp_path: Path, file: str, content: str, line: int) -> None:
    path = tmp_path / file
    path.parent.mkdir(parents=True)
    path.write_text(content)
    (found,) = held.back(FILTERED, [CORE], ["kernel-thp"], tmp_path)
    assert found.startswith(f"{path} line {line}: ")
    assert held.back("Public key for x is not installed", [CORE], ["kernel-thp"], tmp_path) == []


# Set up by the collection


@pytest.fixture
def bare(host: Host, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host that has neither repository nor key."""
    (host.repositories / "toys.repo").unlink()
    forget_keys(host)
    monkeypatch.setattr(repo_setup, "ROOT", host.root)
    return host


def given(repository: Path, **other: str) -> dict[str, str]:
    with signing.keyring(repository / "gnupg") as home:
        fingerprint = signing.fingerprint(home)
    url = f"file://{repository}/repo"
    return {"url": url, "key": f"file://{repository}/key", "fingerprint": fingerprint, **other}


def files(host: Host) -> list[Path]:
    return [path for path in (host.root / "etc").rglob("*") if path.is_file()]


def test_repository_and_key_are_set_up_once(bare: Host, repository: Path) -> None:
    wanted = given(repository, key=(repository / "key").read_text())
    first = find(**wanted)
    assert (first["changed"], first["target"], len(first["diff"])) == (True, TARGET, 3)
    assert len(keys(bare)) == 1
    text = (bare.repositories / "toys.repo").read_text()
    assert "gpgcheck=1" in text.splitlines()
    assert find(**wanted) == {"changed": False, "diff": [], "target": TARGET}
    bare.install()
    assert bare.record()["packages"] == MADE


def test_in_check_mode_it_is_used_without_being_set_up(bare: Host, repository: Path) -> None:
    before, wanted = files(bare), given(repository)
    found = find(check=True, **wanted)
    assert (found["changed"], found["target"]) == (True, TARGET)
    shown = {Path(each["after_header"]).name: (each["before"], each["after"]) for each in found["diff"]}
    assert set(shown) == {"RPM-GPG-KEY-toys", "toys.repo", "keys of rpm"}
    assert shown["keys of rpm"] == ("", f"{wanted['fingerprint']}\n")
    assert f"baseurl={wanted['url']}\n" in shown["toys.repo"][1]
    assert files(bare) == before
    assert keys(bare) == []


def test_what_it_shows_of_a_file_has_no_passwords(bare: Host, repository: Path) -> None:
    old = "[toys]\nbaseurl=https://me:s3cret@repo.example.org/a\npassword = s3cret s3cret\nproxy_password=s3cret\n"
    (bare.repositories / "toys.repo").write_text(old)
    (shown,) = (each for each in find(check=True, **given(repository))["diff"] if "toys.repo" in each["after_header"])
    assert "https://me:...@repo.example.org/a\npassword = ...\nproxy_password=...\n" in shown["before"]
    assert "s3cret" not in str(shown)


def test_another_password_is_a_change(bare: Host, repository: Path) -> None:
    wanted = repo_setup.Wanted("toys", "https://me:new@repo.example.org", "", given(repository)["fingerprint"], True)
    text = repo_setup.repo_file(wanted)
    (bare.repositories / "toys.repo").write_text(text.replace("me:new", "me:old"))
    shown = [each["after_header"] for each in repo_setup.make(wanted, "key", check=True)]
    assert str(bare.repositories / "toys.repo") in shown


def test_a_file_with_a_password_is_for_root_alone(bare: Host, repository: Path) -> None:
    wanted = repo_setup.Wanted("toys", "https://repo.example.org", "", given(repository)["fingerprint"], True)
    key = (repository / "key").read_text()
    for url, mode in ((wanted.url, 0o644), ("https://me:s3cret@repo.example.org", 0o600)):
        repo_setup.make(dataclasses.replace(wanted, url=url), key, check=False)
        assert (bare.repositories / "toys.repo").stat().st_mode & 0o777 == mode


def test_no_error_has_a_password(bare: Host, repository: Path) -> None:
    for option in ("url", "key"):
        with pytest.raises(Problem, match=r"'http://me:\.\.\.@repo\.example\.org"):
            find(**given(repository, **{option: "http://me:s3cret@repo.example.org"}))
    with pytest.raises(Problem, match=r"cannot be read from https://me:\.\.\.@localhost:1/: "):
        find(**given(repository, key="https://me:s3cret@localhost:1/"))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"url": "http://repo.example.org"}, "thp_preflight_repository_url is 'http://.*anybody on the way"),
        ({"key": "http://repo.example.org/key"}, "thp_preflight_repository_key is 'http://.*anybody on the way"),
        ({"key": "file:///nonexistent"}, "the repository's key cannot be read from file:///nonexistent"),
        ({"fingerprint": "0123ABCD"}, "thp_preflight_repository_fingerprint is '0123ABCD', which is no fingerprint"),
        ({"fingerprint": "AB" * 20}, f"has the fingerprint [0-9A-F]+, not {'AB' * 20}; ask who publishes"),
    ],
)
def test_what_nobody_can_trust_is_refused(bare: Host, repository: Path, other: dict[str, str], message: str) -> None:
    before = files(bare)
    with pytest.raises(Problem, match=message):
        find(**given(repository, **other))
    assert (files(bare), keys(bare)) == (before, [])


def test_a_second_key_beside_the_right_one_is_refused(bare: Host, repository: Path, tmp_path: Path) -> None:
    with signing.keyring(tmp_path / "stranger") as home:
        second = signing.public_key(home)
    with pytest.raises(Problem, match=r"has the fingerprint \w+ and \w+, not"):
        find(**given(repository, key=(repository / "key").read_text() + second))
    assert keys(bare) == []


def test_a_second_file_of_the_same_repository_is_refused(bare: Host, repository: Path) -> None:
    (bare.repositories / "internal.repo").write_text("[toys]\nname=toys\nbaseurl=file:///elsewhere\n")
    with pytest.raises(Problem, match=r"internal\.repo has a repository \[toys\] already; remove it there"):
        find(**given(repository))
    assert keys(bare) == []
