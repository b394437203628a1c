"""Each file of tests has its own hosts; all use one repository and one installation of the built collection."""

from __future__ import annotations

import fcntl
import shutil
from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lab import image, repo
from lab.image import Kind
from scripts.console import BUILD, ROOT, say
from tests.fleet import play, releases, table
from tests.fleet.hosts import Fleet
from tests.fleet.memory import Memory
from tests.fleet.releases import Release
from tests.fleet.rollouts import Operator
from tests.fleet.table import Row

FLEET = BUILD / "fleet"
HERE = Path(__file__).resolve().parent


@dataclass
class Board:
    """The results of this session: rows of the table by file of tests, and how many of its tests are still to run."""

    memory: Memory = field(default_factory=Memory)
    rows: dict[str, list[Row]] = field(default_factory=dict)
    left: Counter[Path] = field(default_factory=Counter)
    failed: set[Path] = field(default_factory=set)
    selected: bool = False  # of some file, only some of its tests

    def over(self, module: Path) -> None:
        """A test of this file is over, whatever its result."""
        self.left[module] -= 1
        if self.left[module] == 0 and module not in self.failed and not self.selected:
            self.memory.add(module, self.rows.get(module.stem, []))


BOARD = pytest.StashKey[Board]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--go-on", action="store_true", dest="go_on", help="leave out files of fleet tests that passed")


def pytest_configure(config: pytest.Config) -> None:
    chosen = config.option.keyword or config.option.markexpr or any("::" in word for word in config.args)
    config.stash[BOARD] = Board(selected=bool(chosen))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    board = config.stash[BOARD]
    ours = [item for item in items if item.path.parent == HERE]
    if config.getoption("go_on", default=False):
        known = {path for path in {item.path for item in ours} if board.memory.knows(path)}
        if known == {item.path for item in ours}:
            known = set()
        gone = [item for item in ours if item.path in known]
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in gone]
        board.rows.update({path.stem: board.memory.rows(path.stem) for path in sorted(known)})
        if known:
            say(f"passed before and left out: {', '.join(sorted(path.stem for path in known))}")
    board.left.update(item.path for item in items if item.path.parent == HERE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if item.path.parent == HERE:
        board = item.config.stash[BOARD]
        if report.failed:
            board.failed.add(item.path)
        if report.when == "teardown":
            board.over(item.path)
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    whole = session.config.getoption("go_on", default=False) and not session.config.option.collectonly
    board = session.config.stash[BOARD]
    if exitstatus == pytest.ExitCode.OK and whole and not board.selected:
        board.memory.forget()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    rows = [row for found in config.stash[BOARD].rows.values() for row in found]
    if rows:
        shown = table.render(rows)
        FLEET.mkdir(parents=True, exist_ok=True)
        (FLEET / "table.txt").write_text(shown + "\n")
        terminalreporter.write_line("")
        terminalreporter.write_line(shown)


@pytest.fixture(scope="session")
def repository() -> Iterator[str]:
    """The address of the repository with the present packages."""
    with repo.served() as url:
        yield url


@pytest.fixture(scope="session")
def release() -> Release:
    return releases.built()


@pytest.fixture(scope="session")
def alone() -> Iterator[None]:
    """The hosts of one file fill the machine, and all share one copy of the collection: another pytest waits."""
    FLEET.mkdir(parents=True, exist_ok=True)
    with (FLEET / "lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("fleet: another command has a fleet up, waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def collection(alone: None) -> None:
    play.install()


@pytest.fixture(scope="module")
def kind(request: pytest.FixtureRequest) -> Kind:
    """The kind of the hosts: the one that was asked for, but both in a file of tests that says BOTH_LOADERS."""
    found: Kind = getattr(request, "param", None) or image.chosen()
    return found


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, kind: Kind, alone: None) -> Path:
    """Where a file of tests leaves its hosts' consoles, its runs and their reports."""
    found = FLEET / request.path.stem / kind.name
    shutil.rmtree(found, ignore_errors=True)
    found.mkdir(parents=True)
    say(f"consoles, logs and reports: {found.relative_to(ROOT)}")
    return found


@pytest.fixture(scope="module")
def fleet(folder: Path, repository: str, kind: Kind) -> Iterator[Fleet]:
    """A fleet without hosts: a file of tests starts those it needs."""
    with Fleet(folder / "hosts", repository, kind) as found:
        yield found


@pytest.fixture(scope="module")
def operator(request: pytest.FixtureRequest, folder: Path, fleet: Fleet, collection: None) -> Iterator[Operator]:
    rows = request.config.stash[BOARD].rows.setdefault(request.path.stem, [])
    found = Operator(fleet, folder, rows)
    yield found
    found.end()
