"""A host with a kernel is shared by the tests of the tools on it, and by those of the tuned profiles.

With `--dist loadgroup`, one worker runs all tests of a folder on a kernel, and one worker all tests of any other file.
Each worker starts the hosts that its tests need, one at a time, and keeps one as long as the kernel is the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab import repo, snapshots
from lab.host import Host
from lab.snapshots import Recipe
from lab.vm import RUN

# What takes longest to start comes first: meanwhile the second worker runs the others.
RECIPES = (snapshots.KERNEL_THP, snapshots.STOCK, snapshots.UPSTREAM)
# The tests of the tools come first: they need a kernel on which no profile was applied before. Those of the profiles
# can begin with a host of their own.
FOLDERS = (Path(__file__).with_name("tools"), Path(__file__).with_name("tuned"))
# In one transaction, as each one is slow on an emulated host.
PACKAGES = ("thp-tools", "tuned-profiles-thp")
Start = Callable[[Recipe], Host]


@pytest.fixture(scope="session")
def start() -> Iterator[Start]:
    """Return a function that starts the host of a recipe unless it runs already, and stops the previous one."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    running: dict[str, Host] = {}
    with ExitStack() as stack:

        def started(recipe: Recipe) -> Host:
            if recipe.name not in running:
                running.clear()
                stack.close()
                url = stack.enter_context(repo.served())
                vm = stack.enter_context(recipe.build().machine(RUN / f"{recipe.name}-{worker}"))
                vm.wait_ssh()
                host = Host(vm)
                host.use_repository(url)
                host.install(*PACKAGES)
                running[recipe.name] = host
            return running[recipe.name]

        yield started


@pytest.fixture(scope="module")
def host(request: pytest.FixtureRequest, start: Start) -> Host:
    """The host of the file's RECIPE, with our packages installed by dnf and no profile applied yet."""
    recipe: Recipe = request.module.RECIPE
    return start(recipe)


# First, as xdist reads the groups in the same hook.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=place)
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            item.add_marker(pytest.mark.xdist_group(group(item)))


def shares(item: pytest.Item) -> Recipe | None:
    """Return the recipe of the shared host that a test runs on, or None."""
    if item.path.parent not in FOLDERS or not isinstance(item, pytest.Function):
        return None
    recipe: Recipe = item.module.RECIPE
    return recipe


def place(item: pytest.Item) -> tuple[int, int]:
    """Return the sort key: tests on a shared host come last, by folder and host; all others keep their order."""
    recipe = shares(item)
    return (FOLDERS.index(item.path.parent), RECIPES.index(recipe)) if recipe else (-1, 0)


def group(item: pytest.Item) -> str:
    recipe = shares(item)
    return f"{item.path.parent.name}/{recipe.name if recipe else item.path.stem}"
