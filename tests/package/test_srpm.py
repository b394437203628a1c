"""Source packages: what is in them, and that they rebuild where nothing of this project is at hand."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from scripts import config, lock, rpms, series, srpms
from scripts.console import ROOT
from tests.package.conftest import RELEASE, VERSION, Packages, run

KERNEL = f"kernel-thp-{VERSION}-{RELEASE}.src.rpm"
HERE = Path(__file__).parent
# What a build needs besides its BuildRequires. rpm-build of RPM distributions has the last ones as its requirements.
TOOLS = ("rpm", "rpm2cpio", "cpio", "binutils", "file", "gzip")
# The cloud kernel takes half an hour and more, so it is built only if asked for; the selftests always are.
OF_KERNEL = "" if os.environ.get("KERNEL") else "--without kernel"
# What the root takes with the selftests in it.
GIB = 4


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Unpack the source packages, each into a directory."""
    found = {}
    for path in srpms.REPO.glob("*.src.rpm"):
        found[path.name] = tmp_path_factory.mktemp("source")
        rpms.extract(path, found[path.name])
    assert found, "run `make srpm`"
    return found


def test_one_for_each_spec_and_every_package_names_its_own(packages: Packages, sources: dict[str, Path]) -> None:
    assert {path.stem for path in (ROOT / "SPECS").glob("*.spec")} == {name.rsplit("-", 2)[0] for name in sources}
    for name in packages.paths:
        assert packages.query(name, "--queryformat", "%{SOURCERPM}") in sources


def test_everything_the_specs_ask_for_is_in_them_and_nothing_else(sources: dict[str, Path]) -> None:
    for folder in sources.values():
        (spec,) = folder.glob("*.spec")
        text = run("rpmspec", "-P", str(spec)).stdout
        asked = {name.rpartition("/")[2] for name in re.findall(r"(?m)^(?:Source|Patch)\d+: +(\S+)", text)}
        assert {path.name for path in folder.iterdir()} == {spec.name, *asked}


def test_kernel_sources_are_those_of_this_project(sources: dict[str, Path]) -> None:
    folder = sources[KERNEL]
    assert lock.sha256(folder / lock.used().path.name) == lock.used().sha256
    # What is for other trees is part of the complete configurations.
    fragments = set(config.FOLDER.rglob("*.config")) - {config.OTHER_TREES}
    ours = [*series.Series(ROOT / "patches" / lock.used().series).patches(), *fragments]
    for path in (*ours, rpms.CORE_MODULES, *rpms.SCRIPTS):
        assert (folder / path.name).read_bytes() == path.read_bytes()


def test_only_the_release_has_the_address_of_the_release(sources: dict[str, Path]) -> None:
    (spec,) = sources[KERNEL].glob("*.spec")
    (source,) = re.findall(r"(?m)^Source0: +(\S+)", run("rpmspec", "-P", str(spec)).stdout)
    assert source.startswith("https://") == (lock.used().kind == lock.KERNEL_ORG)


def test_another_file_of_the_same_name_is_refused(sources: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "sources"
    shutil.copytree(sources[KERNEL], folder)
    (folder / lock.used().path.name).write_text("another\n")
    (spec,) = folder.glob("*.spec")
    command = ["rpmbuild", "-bp", "--nodeps", f"--define=_sourcedir {folder}", f"--define=_topdir {tmp_path}"]
    done = subprocess.run([*command, str(spec)], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"error: {lock.used().path.name} is not what used.lock pins: {lock.used().line()[:-1]}; fetch" in done.stderr


@pytest.mark.parametrize(
    ("package", "archive", "folder"),
    [
        (KERNEL, "selftests.tar", rpms.TESTS),
        ("thp-tools", "tools.tar", rpms.THP_TOOLS),
        ("tuned", "tuned-profiles.tar", rpms.TUNED),
    ],
)
def test_archives_hold_the_files_of_this_project(
    sources: dict[str, Path], package: str, archive: str, folder: Path
) -> None:
    (place,) = (found for name, found in sources.items() if name.startswith(package))
    with tarfile.open(place / archive) as content:
        packed = {}
        for member in content:
            file = content.extractfile(member)
            assert file
            packed[member.name.partition("/")[2]] = file.read()
    assert packed == {str(path.relative_to(folder)): path.read_bytes() for path in rpms.files_of(folder)}


def test_spin_and_address_of_a_build_are_in_its_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that rebuilding takes no options."""
    monkeypatch.setenv("SPIN", "7")
    monkeypatch.setenv("REPO_URL", "https://packages.example.org/thp/")
    for stage, name in ((rpms.tools(), "thp-tools-1.0-7"), (rpms.release(), "kernel-thp-release-1.0-7")):
        package = srpms.make(stage, tmp_path)
        assert package.name == f"{name}.src.rpm"
        (tmp_path / name).mkdir()
        rpms.extract(package, tmp_path / name)
        (spec,) = (tmp_path / name).glob("*.spec")
        assert run("rpmspec", "-q", "--srpm", "--undefine=dist", "--queryformat=%{NVR}", str(spec)).stdout == name
    assert "baseurl=https://packages.example.org/thp/\n" in run("rpmspec", "-P", str(spec)).stdout


def test_same_sources_give_the_same_content(tmp_path: Path) -> None:
    """The header has the spec with the names of directories in it, so only what is packed can be the same."""
    one, other = (srpms.make(rpms.tools(), tmp_path / name) for name in ("one", "in-another-directory"))
    form = "%{PAYLOADDIGEST} %{BUILDTIME} %{BUILDHOST} [%{FILEMTIMES} %{FILEUSERNAME} ]"
    one_has, other_has = (run("rpm", "-qp", "--queryformat", form, str(path)).stdout for path in (one, other))
    assert one_has
    assert one_has == other_has


@pytest.fixture(scope="module")
def clean_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a root directory with rpm and what the BuildRequires ask for, in which rpm knows of these.

    Debian's packages are not in the database of rpm. build-root.spec makes a package that answers for them, and cannot
    be built where one of them is not installed.
    """
    folder = tmp_path_factory.mktemp("clean") / "root"
    rpms.check_room(folder.parent, GIB if OF_KERNEL else rpms.NEEDED_GIB, "set TMPDIR")
    spec = (HERE / "build-root.spec").read_text()
    debian = [name.split()[-1] for name in re.findall(r"(?m)^%debian (.+)$", spec)]
    command = ["mmdebstrap", "--variant=apt", f"--include={','.join([*TOOLS, *debian])}", "bookworm", str(folder)]
    done = run(*command)
    assert done.returncode == 0, done.stderr
    (folder / "build-root.spec").write_text(spec)
    inside(folder, "rpmbuild -bb --quiet --define '_topdir /tmp/provides' /build-root.spec")
    inside(folder, "rpm --force-debian -i /tmp/provides/RPMS/noarch/*.rpm")
    return folder


def inside(root: Path, script: str) -> str:
    """Run a command in a root directory, with nothing of this machine's but the kernel."""
    command = [
        "unshare",
        "--mount",
        "--pid",
        "--fork",
        "--net",
        "--uts",
        f"--mount-proc={root}/proc",
        "chroot",
        str(root),
    ]
    done = subprocess.run(
        [*command, "sh", "-ec", script],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.full
@pytest.mark.parametrize(
    ("package", "options"),
    [("thp-tools", ""), ("tuned-profiles-thp", ""), ("kernel-thp-release", ""), ("kernel-thp", OF_KERNEL)],
)
def test_rebuilds_in_a_clean_root(packages: Packages, clean_root: Path, package: str, options: str) -> None:
    (source,) = srpms.REPO.glob(f"{package}-[0-9]*.src.rpm")
    (clean_root / source.name).write_bytes(source.read_bytes())
    inside(clean_root, f"rpmbuild --rebuild {options} --define '_topdir /tmp/{package}' /{source.name}")
    made = {path.name: path for path in (clean_root / "tmp" / package / "RPMS").rglob("*.rpm")}
    published = {path.name for path in packages.paths.values()}
    assert made
    assert made.keys() <= published
    form = "[%{FILENAMES} %{FILEMODES} %{FILEMTIMES}\n]"
    for name, path in made.items():
        (mine,) = (found for found in packages.paths.values() if found.name == name)
        theirs, ours = (
            run("rpm", "-qp", "--nosignature", "--queryformat", form, str(one)).stdout for one in (path, mine)
        )
        assert theirs == ours


@pytest.mark.full
def test_clean_root_without_a_requirement_refuses(clean_root: Path) -> None:
    (source,) = srpms.REPO.glob("thp-tools-[0-9]*.src.rpm")
    (clean_root / source.name).write_bytes(source.read_bytes())
    inside(clean_root, "rpm --force-debian -e build-root-provides")
    try:
        with pytest.raises(AssertionError, match="Failed build dependencies"):
            inside(clean_root, f"rpmbuild --rebuild --define '_topdir /tmp/none' /{source.name}")
    finally:
        inside(clean_root, "rpm --force-debian -i /tmp/provides/RPMS/noarch/*.rpm")
