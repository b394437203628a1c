"""A bump moves to the newest release that it can get, goes on where it stopped, and is one commit."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from scripts import bump, config, lock
from scripts.console import UserError
from scripts.flavours import CLOUD
from scripts.lock import Source
from scripts.sources import Place

# Each target notes that it ran, and fails while there is a file stop-TARGET.
MAKEFILE = """\
tree refresh config gate:
	@echo $@ >> build/ran
	@test ! -e stop-$@
	@test $@ != refresh || echo refreshed >> patches/6.1/one.patch
"""
SPEC = "%{!?base:%global base 6.1.9}\n%changelog\n* Fri Nov 20 2026 somebody - 6.1.9-1\n- First.\n"
MOVED = "Move to Linux 6.1.12 of linux-source-6.1=6.1.12-1"
ALL = ["tree", "refresh", "config", "gate"]


class Shelf:
    """A place that lists versions and has the files of some."""

    def __init__(
        self,
        kind: str,
        listed: Sequence[str],
        gone: Sequence[str] = (),
        hashes: bool = False,
        revisions: Sequence[str] = ("1",),
    ) -> None:
        self.kind = kind
        self.revisions = revisions
        self.versions = listed
        self.gone = gone
        self.hashes = hashes

    @staticmethod
    def usable() -> bool:
        return True

    @staticmethod
    def content(version: str, package: str) -> bytes:
        return f"Linux {version}, {package}".encode()

    def line(self, version: str, known: bool = True, revision: str = "1") -> Source:
        package = f"linux-source-6.1={version}-{revision}" if lock.KINDS[self.kind] else ""
        sha256 = hashlib.sha256(self.content(version, package)).hexdigest() if known else lock.UNKNOWN
        return Source("linux", version, sha256, self.kind, package)

    def listed(self, series: str) -> list[Source]:
        return [
            self.line(version, self.hashes, revision)
            for version in self.versions
            for revision in self.revisions
            if version.startswith(f"{series}.")
        ]

    def fetch(self, source: Source, part: Path) -> bool:
        if source.version in self.gone:
            return False
        part.write_bytes(self.content(source.version, source.package))
        return True


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one committed release, and a Makefile that only notes what it was asked for."""
    for name in ("SOURCES/config", "SPECS", "patches/6.1", "build/sources"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / ".gitignore").write_text("/build\n/stop-*\n")
    (tmp_path / "Makefile").write_text(MAKEFILE)
    (tmp_path / "SPECS" / "kernel-thp.spec").write_text(SPEC)
    (tmp_path / "SOURCES" / "sources.lock").write_text(f"# why\n{Shelf('debian', []).line('6.1.9').line()}")
    (tmp_path / "SOURCES" / "config" / "kernel-x86_64-cloud.config").write_text("CONFIG_OLD=y\n")
    (tmp_path / "patches" / "6.1" / "one.patch").write_text("one\n")
    monkeypatch.setattr(bump, "ROOT", tmp_path)
    monkeypatch.setattr(bump, "SPEC", tmp_path / "SPECS" / "kernel-thp.spec")
    monkeypatch.setattr(bump, "SHOWN", tmp_path / "build" / "questions")
    monkeypatch.setattr(bump, "FLAVOURS", {"cloud": CLOUD})
    monkeypatch.setattr(config, "FOLDER", tmp_path / "SOURCES" / "config")
    monkeypatch.setattr(lock, "LOCK", tmp_path / "SOURCES" / "sources.lock")
    monkeypatch.setattr(lock, "SOURCES", tmp_path / "build" / "sources")
    monkeypatch.setattr(lock, "USED", tmp_path / "build" / "sources" / "used.lock")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "config", "user.name", "somebody")
    git(tmp_path, "config", "user.email", "somebody@example.org")
    git(tmp_path, "add", "--all")
    git(tmp_path, "commit", "--quiet", "--message=First")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def commits(folder: Path) -> list[str]:
    return git(folder, "log", "--format=%s").splitlines()


def ran(folder: Path) -> list[str]:
    path = folder / "build" / "ran"
    return path.read_text().split() if path.exists() else []


def shelves() -> list[Place]:
    """Return two places: one has lost the newest release and has its hash, the other has it."""
    debian = Shelf("debian", ["6.1.12", "6.1.9"], gone=["6.1.12"], hashes=True)
    return [debian, Shelf("linux-source", ["6.1.12", "6.1.10"])]


def test_bump_leaves_one_commit_with_everything(repository: Path) -> None:
    bump.bump("", shelves())
    assert commits(repository) == [MOVED, "First"]
    assert git(repository, "status", "--porcelain") == ""
    assert ran(repository) == ALL
    assert "%global base 6.1.12}" in bump.SPEC.read_text()
    assert "- Linux 6.1.12 of linux-source-6.1=6.1.12-1.\n\n* Fri Nov 20 2026" in bump.SPEC.read_text()
    debian, linux_source = (Shelf(kind, []).line("6.1.12").line() for kind in ("debian", "linux-source"))
    assert lock.LOCK.read_text() == f"# why\n{linux_source}linux 6.1.12 - kernel.org\n{debian}"
    assert "Changed with it: one." in git(repository, "log", "-1", "--format=%b")


def test_line_of_a_place_without_the_release_stays(repository: Path) -> None:
    bump.bump("", [Shelf("linux-source", ["6.1.12"])])
    assert lock.LOCK.read_text().endswith(Shelf("debian", []).line("6.1.9").line())
    assert [source.version for source in lock.read()] == ["6.1.12", "6.1.12"]


def pinned_at(repository: Path, *sources: Source) -> None:
    lock.write(sources)
    git(repository, "commit", "--quiet", "--all", "--message=Second")


def test_later_revision_of_the_package_is_newer(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Distributions fix a release that way. The release itself, which other places have, stays what it is."""
    release = Shelf("kernel.org", ["6.1.9"])
    pinned_at(repository, Shelf("linux-source", []).line("6.1.9", revision="9"), release.line("6.1.9"))
    # The older ones first, as dnf lists them.
    bump.bump("", [release, Shelf("linux-source", ["6.1.9"], revisions=["8", "9", "10"])])
    name = "Linux 6.1.9 of linux-source-6.1=6.1.9-10"
    assert commits(repository)[:2] == [f"Move to {name}", "Second"]
    assert lock.read() == [Shelf("linux-source", []).line("6.1.9", revision="10"), release.line("6.1.9")]
    assert ran(repository) == ALL
    assert f"- {name}.\n" in bump.SPEC.read_text()
    assert "give a SPIN that is higher" in capsys.readouterr().out


@pytest.mark.parametrize("revision", ["9", "8", "9~deb11u1"])
def test_same_or_earlier_revision_is_not_newer(repository: Path, revision: str) -> None:
    pinned_at(repository, Shelf("linux-source", []).line("6.1.9", revision="9"))
    bump.bump("", [Shelf("linux-source", ["6.1.9"], revisions=[revision])])
    assert (ran(repository), commits(repository)) == ([], ["Second", "First"])


def test_revisions_are_none_of_another_place(repository: Path) -> None:
    pinned_at(repository, Shelf("kernel.org", []).line("6.1.9"))
    bump.bump("", [Shelf("kernel.org", ["6.1.9"]), Shelf("linux-source", ["6.1.9"], revisions=["10"])])
    assert ran(repository) == []


def test_later_revision_that_is_gone_is_an_error(repository: Path) -> None:
    pinned_at(repository, Shelf("linux-source", []).line("6.1.9"))
    lists = r"linux-source lists Linux 6\.1\.9 of linux-source-6\.1=6\.1\.9-2, and no place gives it"
    with pytest.raises(UserError, match=lists):
        bump.bump("", [Shelf("linux-source", ["6.1.9"], gone=["6.1.9"], revisions=["2"])])


def test_what_appeared_since_a_bump_was_stopped_needs_another_one(repository: Path) -> None:
    pinned_at(repository, Shelf("linux-source", []).line("6.1.9"))
    bump.bump("config", [Shelf("linux-source", ["6.1.9"], revisions=["2"])])
    with pytest.raises(
        UserError, match=r"6\.1\.9-2 is behind: linux-source lists .*6\.1\.9-3; run `make bump` once more"
    ):
        bump.bump("", [Shelf("linux-source", ["6.1.9"], revisions=["2", "3"])])
    assert commits(repository)[0] == "Move to Linux 6.1.9 of linux-source-6.1=6.1.9-2"


@pytest.mark.parametrize("stop", ALL)
def test_bump_goes_on_where_it_stopped(repository: Path, stop: str) -> None:
    (repository / f"stop-{stop}").touch()
    with pytest.raises(UserError, match=f"the bump stopped at `make {stop}`.*`make bump` goes on"):
        bump.bump("", shelves())
    assert commits(repository) == ["First"]
    assert ran(repository) == ALL[: ALL.index(stop) + 1]
    (repository / f"stop-{stop}").unlink()
    bump.bump("", shelves())
    assert commits(repository) == [MOVED, "First"]
    assert bump.SPEC.read_text().count("- Linux 6.1.12 ") == 1


def test_bump_can_stop_before_the_build(repository: Path) -> None:
    bump.bump("config", shelves())
    assert (ran(repository), commits(repository)) == (ALL[:3], ["First"])


def test_new_answer_stops_the_bump_once(repository: Path) -> None:
    complete = config.complete(CLOUD)
    (repository / "Makefile").write_text(MAKEFILE + f"\t@printf 'CONFIG_OLD=m\\nCONFIG_NEW=y\\n' > {complete}\n")
    git(repository, "commit", "--quiet", "--all", "--message=Second")
    with pytest.raises(UserError, match="cloud: CONFIG_NEW: absent -> y\ncloud: CONFIG_OLD: y -> m\n"):
        bump.bump("", shelves())
    assert "gate" not in ran(repository)
    bump.bump("", shelves())
    assert commits(repository)[0] == MOVED


def test_release_that_no_place_gives_is_an_error(repository: Path) -> None:
    lost = [Shelf("debian", ["6.1.12"], gone=["6.1.12"], hashes=True), Shelf("kernel.org", ["6.1.12", "6.1.11"])]
    lost[1].gone = ["6.1.12", "6.1.11"]
    with pytest.raises(UserError, match=r"Linux 6\.1\.9 is behind: debian, kernel\.org lists Linux 6\.1\.12,"):
        bump.bump("", lost)
    assert (ran(repository), commits(repository)) == ([], ["First"])


def test_bump_to_less_than_the_newest_ends_with_an_error(repository: Path) -> None:
    some = [Shelf("debian", ["6.1.12"], gone=["6.1.12"], hashes=True), Shelf("linux-source", ["6.1.10"])]
    with pytest.raises(UserError, match=r"6\.1\.10-1 is behind: debian lists Linux 6\.1\.12,"):
        bump.bump("", some)
    assert commits(repository) == ["Move to Linux 6.1.10 of linux-source-6.1=6.1.10-1", "First"]


def test_newest_release_needs_nothing(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bump.bump("", [Shelf("debian", ["6.1.9", "6.1.8"], hashes=True)])
    said = capsys.readouterr().out
    assert "nothing to do: Linux 6.1.9 is the newest 6.1.y of debian\n" in said
    assert ran(repository) == []


def test_a_place_that_is_silent_may_have_a_newer_release(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bump.bump("", [Shelf("debian", ["6.1.9"], hashes=True), Shelf("kernel.org", [])])
    assert "of debian; *** no answer from kernel.org, which may have a newer one" in capsys.readouterr().out


def test_silence_of_all_places_is_an_error(repository: Path) -> None:
    with pytest.raises(UserError, match=r"no place lists any Linux 6\.1\.y"):
        bump.bump("", [Shelf("debian", [])])
    assert ran(repository) == []


def test_uncommitted_work_is_not_taken_along(repository: Path) -> None:
    (repository / "patches" / "6.1" / "one.patch").write_text("mine\n")
    with pytest.raises(UserError, match="uncommitted work"):
        bump.bump("", shelves())
    assert lock.read()[0].version == "6.1.9"
