"""A load balancer's tool, as far as a rollout calls it: `balancer.py FOLDER drain|undrain HOST`, on the controller.

It notes in which order hosts left the service and came back. It does not let a host back in while FOLDER/hold-HOST is
there, as an operator does who wants to look at the canary before the rollout goes on, and fails to while
FOLDER/refuse-HOST is.
"""

from __future__ import annotations

import fcntl
import sys
import time
from dataclasses import dataclass
from pathlib import Path

POLL = 0.5
TIMEOUT = 1800.0


@dataclass(frozen=True)
class Balancer:
    """The tool from the side of a test."""

    folder: Path

    def command(self, action: str) -> list[str]:
        program = [sys.executable, "-I", str(Path(__file__).resolve())]
        return [*program, str(self.folder), action, "{{ inventory_hostname }}"]

    def variables(self) -> dict[str, object]:
        return {
            "preflight_drain_command": self.command("drain"),
            "preflight_undrain_command": self.command("undrain"),
            "preflight_hook_delegate_to": "localhost",
        }

    def hold(self, host: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"hold-{host}").touch()

    def let_go(self, host: str) -> None:
        (self.folder / f"hold-{host}").unlink(missing_ok=True)

    def refuse(self, host: str, yes: bool = True) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"refuse-{host}"
        path.touch() if yes else path.unlink()

    def calls(self) -> list[tuple[str, str]]:
        """Return what was asked for and done, in this order: action and host."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(action, host) for action, _, host in (line.partition(" ") for line in lines)]


def main(folder: Path, action: str, host: str) -> int:
    deadline = time.monotonic() + TIMEOUT
    while action == "undrain" and (folder / f"hold-{host}").exists():
        if time.monotonic() > deadline:
            return 1
        time.sleep(POLL)
    if action == "undrain" and (folder / f"refuse-{host}").exists():
        return 1
    with (folder / "calls").open("a") as calls:
        fcntl.flock(calls, fcntl.LOCK_EX)
        calls.write(f"{action} {host}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
