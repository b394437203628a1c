"""A load balancer's tool as a rollout calls it: `balancer.py FOLDER drain|undrain HOST`, on the controller.

It records the order in which hosts left service and returned. It refuses an action while FOLDER/refuse-ACTION-HOST
exists.
"""

from __future__ import annotations

import fcntl
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Balancer:
    """The tool as a test uses it."""

    folder: Path

    def command(self, action: str) -> list[str]:
        program = [sys.executable, "-I", str(Path(__file__).resolve())]
        return [*program, str(self.folder), action, "{{ inventory_hostname }}"]

    def variables(self) -> dict[str, object]:
        return {
            "thp_preflight_drain_command": self.command("drain"),
            "thp_preflight_undrain_command": self.command("undrain"),
            "thp_preflight_hook_delegate_to": "localhost",
        }

    def refuse(self, action: str, host: str, yes: bool = True) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"refuse-{action}-{host}"
        path.touch() if yes else path.unlink()

    def calls(self) -> list[tuple[str, str]]:
        """Return the calls that succeeded, in order: action and host."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(action, host) for action, _, host in (line.partition(" ") for line in lines)]


def main(folder: Path, action: str, host: str) -> int:
    if (folder / f"refuse-{action}-{host}").exists():
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "calls").open("a") as calls:
        fcntl.flock(calls, fcntl.LOCK_EX)
        calls.write(f"{action} {host}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
