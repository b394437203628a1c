"""The operator: writes the inventory, starts a playbook, and afterwards collects the state of every host."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import image
from tests.fleet import play, table
from tests.fleet.hosts import Fleet, Member, State
from tests.fleet.play import Run
from tests.fleet.table import Row

Variables = Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """A run that is over: its report, and the states of its hosts."""

    run: Run
    code: int
    report: dict[str, Any]
    states: dict[str, State]

    def host(self, name: str) -> dict[str, Any]:
        (found,) = (host for host in self.report["hosts"] if host["host"] == name)
        return dict(found)

    def result(self, name: str) -> str:
        return str(self.host(name)["result"])

    def results(self) -> dict[str, str]:
        return {host["host"]: host["result"] for host in self.report["hosts"]}

    def steps(self, name: str) -> list[str]:
        return [step["name"] for step in self.host(name)["steps"]]

    def failure(self, name: str) -> tuple[str, str]:
        """Return the step in which a host failed, and why."""
        failed = self.host(name)["failed"] or {"step": "", "why": ""}
        return failed["step"], failed["why"]


def way_to(member: Member) -> dict[str, Any]:
    """Return the variables that an inventory needs to connect to a host."""
    return {
        "ansible_host": "127.0.0.1",
        "ansible_port": member.vm.port,
        # As the example does: not root, but somebody who may become it.
        "ansible_user": "admin",
        "ansible_become": True,
        "ansible_ssh_private_key_file": str(image.ssh_key()),
        "ansible_ssh_common_args": " ".join(member.vm.ssh_options()),
    }


@dataclass
class Operator:
    """Works in one folder, which also has the reports. `rows` become the fleet's table."""

    fleet: Fleet
    folder: Path
    rows: list[Row]
    runs: list[Run] = field(default_factory=list)

    def start(
        self,
        playbook: str,
        title: str,
        names: Sequence[str],
        serial: Sequence[int] = (1,),
        max_failed: int = 0,
        variables: Variables | None = None,
        of_hosts: Mapping[str, Variables] | None = None,
        words: Sequence[str] = (),
        elsewhere: bool = False,
    ) -> Run:
        """Start a playbook on hosts, of which the canaries are the first batch.

        `of_hosts`: variables of one host. `elsewhere`: on another controller.
        """
        title = title if self.fleet.kind == image.BOOKWORM else f"{title} ({self.fleet.kind.name})"
        directory = self.folder / f"{len(self.runs) + 1}-{re.sub(r'[^a-z0-9]+', '-', title.lower())}"
        directory.mkdir(parents=True)
        own = of_hosts or {}
        hosts = {name: {**way_to(self.fleet[name]), **own.get(name, {})} for name in names}
        inventory = {
            "fleet": {"hosts": hosts, "vars": {**play.PATIENCE, **(variables or {})}},
            "canary": {"hosts": dict.fromkeys(names[: serial[0]])},
        }
        written = directory / "inventory.json"
        written.write_text(json.dumps(inventory, indent=1))
        extra = {"thp_fleet_serial": list(serial[1:] or serial), "thp_fleet_max_failed": max_failed}
        run = Run(title, playbook, written, ["-e", json.dumps(extra), *words], self.folder, elsewhere)
        self.runs.append(run)
        return run

    def finish(self, run: Run, timeout: float = play.RUN_TIMEOUT) -> Outcome:
        """Wait for the end of a run, validate its report, and collect the states of its hosts."""
        code = run.wait(timeout)
        report = run.report()
        outcome = Outcome(run, code, report, self.fleet.collect(run.names))
        self.rows.extend(_row(run.title, host, outcome.states.get(host["host"])) for host in report["hosts"])
        return outcome

    def end(self) -> None:
        for run in self.runs:
            run.end()


def _row(title: str, host: Mapping[str, Any], state: State | None) -> Row:
    return Row(
        run=title,
        host=host["host"],
        result=host["result"],
        kernel=state.uname if state else table.NOTHING,
        default=table.default(state.default) if state else table.NOTHING,
        profile=state.profiles if state else table.NOTHING,
        time=table.seconds(host["seconds"]),
        failed=table.failed_in(host["failed"]),
    )
