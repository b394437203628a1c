"""The hosts of a fleet: lab hosts from one snapshot, and the state of each, from the host itself."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from lab import image, snapshots
from lab.host import Host
from lab.image import Kind
from lab.snapshots import Recipe
from lab.vm import Vm
from scripts.console import say

# For a file of tests about what a boot loader starts: all of them with each kind of host.
BOTH_LOADERS = pytest.mark.parametrize(
    "kind", tuple(image.KINDS.values()), ids=tuple(image.KINDS), indirect=True, scope="module"
)
COLLECT = Path(__file__).with_name("collect.py")
SETTLED = (
    "systemctl is-system-running --wait > /dev/null; "
    "timeout 120 sh -c 'until tuned-adm active | grep -q \": {profiles}$\"; do sleep 1; done'"
)


@dataclass(frozen=True)
class State:
    """What tests/fleet/collect.py found on a host; a rollback has to restore `settings`."""

    boot_id: str
    settings: dict[str, Any]
    record: dict[str, Any] | None
    held: bool
    dnf_log_bytes: int

    @property
    def uname(self) -> str:
        return str(self.settings["uname"])

    @property
    def default(self) -> str | None:
        """Return the configured default of the boot loader, or None."""
        found: str | None = self.settings["boot"]["default"]
        return found

    @property
    def profiles(self) -> str:
        return " ".join(self.settings["tuned"]["active"]) or "none"


class Member:
    """One host of a fleet. `before` is its state when it was started for a test."""

    def __init__(self, name: str, vm: Vm, repository: str) -> None:
        self.name = name
        self.vm = vm
        self.host = Host(vm)
        self.repository = repository
        self._before: State | None = None

    @property
    def before(self) -> State:
        assert self._before is not None, f"{self.name} was not made ready"
        return self._before

    def make_ready(self) -> None:
        """Wait until it is up, configure its repository, and remember its state.

        All hosts start from one snapshot; a machine id of its own makes it another machine.
        """
        self.vm.wait_ssh()
        self.vm.write("/etc/machine-id", f"{uuid.uuid4().hex}\n")
        self.host.use_repository(self.repository)
        self.host.trust_repository()
        self.remember()

    def settle(self, profiles: str) -> None:
        """Wait until the boot is complete, and tuned has applied its profiles."""
        self.vm.run(SETTLED.format(profiles=profiles))

    def remember(self) -> None:
        """Take its present state as the one to compare with afterwards."""
        self._before = self.collect()

    def collect(self) -> State:
        return State(**json.loads(self.vm.run("python3 -I -", stdin=COLLECT.read_text()).text))

    def restart(self, *options: str) -> None:
        """Power it on after power_off(), with options of qemu, and wait until it is up."""
        self.vm.power_on(*options)
        self.vm.wait_ssh()


class Fleet:
    """Hosts, each with a directory of its own below `folder`. Leaving it stops them.

    `kind` has the boot loader. `durable` is for hosts whose power is cut, see Vm; it is slower.
    """

    def __init__(self, folder: Path, repository: str, kind: Kind) -> None:
        self.folder = folder
        self.repository = repository
        self.kind = kind
        self.durable = False
        self.members: dict[str, Member] = {}
        self._started = 0

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members.values():
            member.vm.stop()

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    def start(self, *names: str, recipe: Recipe = snapshots.MEMBER) -> None:
        """Start fresh hosts, all at once, and stop existing ones of the same names."""
        saved = replace(recipe, kind=self.kind).build()
        for name in names:
            if name in self.members:
                self.members.pop(name).vm.stop()
            self._started += 1
            vm = saved.machine(self.folder / f"{self._started}-{name}", name, self.durable)
            self.members[name] = Member(name, vm, self.repository)
            vm.start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(Member.make_ready, (self.members[name] for name in names)))
        for name in names:
            say(f"{name} is up with {self.members[name].before.uname}")

    def refresh(self, *names: str) -> None:
        """Prepare hosts for the next test: keep those without a rollout, and start the others again."""
        kept = [name for name in names if self._can_stay(name)]
        for name in kept:
            self.members[name].host.use_repository(self.repository)
            self.members[name].remember()
        self.start(*(name for name in names if name not in kept))

    def _can_stay(self, name: str) -> bool:
        member = self.members.get(name)
        if member is None or not member.vm.running:
            return False
        now, before = member.collect(), member.before
        return (now.boot_id, now.settings, now.record, now.held) == (before.boot_id, before.settings, None, False)

    def collect(self, names: Sequence[str]) -> dict[str, State]:
        """Return the states of the hosts that are running."""
        running = [name for name in names if self.members[name].vm.running]
        with ThreadPoolExecutor() as pool:
            return dict(zip(running, pool.map(Member.collect, (self.members[name] for name in running))))
