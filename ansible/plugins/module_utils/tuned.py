"""tuned: which profiles are active, which are chosen for the next start, and how to restore both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, files
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

SERVICE = "tuned.service"
CHOICE, MODE = "etc/tuned/active_profile", "etc/tuned/profile_mode"
# The content of MODE when an operator chose the profile; otherwise tuned picked it.
BY_HAND = "manual"
ACTIVE = "Current active profile:"
OURS = ("thp-shrinker", "thp-shrinker-tight", "thp-baseline")
# linux-system-roles' kernel_settings has to stay the last profile.
LAST = "kernel_settings"
LOG = "/var/log/tuned/tuned.log"
POLL = 1.0


@dataclass(frozen=True)
class State:
    """`choice` and `mode` are the files in which tuned keeps the chosen profile; `enabled` is from systemctl."""

    installed: bool
    running: bool
    enabled: str
    active: list[str]
    choice: str | None
    mode: str | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def from_dict(data: dict[str, Any]) -> State:
    return State(**{name: data[name] for name in State.__dataclass_fields__})


def active(output: str) -> list[str]:
    """Parse `tuned-adm active`. A preset profile is chosen but not active."""
    return next((line[len(ACTIVE) :].split() for line in output.splitlines() if line.startswith(ACTIVE)), [])


def read(root: Path = Path("/")) -> State:
    done = command.run(["tuned-adm", "active"])
    return State(
        installed=done.code != command.NOT_THERE,
        running=command.run(["systemctl", "is-active", "--quiet", SERVICE]).code == 0,
        enabled=command.run(["systemctl", "is-enabled", SERVICE]).out.strip(),
        active=active(done.out),
        choice=files.text(root / CHOICE),
        mode=files.text(root / MODE),
    )


def chosen(state: State) -> list[str]:
    """Return the active profiles other than ours that an operator chose."""
    by_hand = state.mode is not None and state.mode.strip() == BY_HAND
    return [name for name in state.active if by_hand and name not in OURS]


def with_profile(before: Sequence[str], wanted: str) -> list[str]:
    """Return the profiles that were active, with ours after them: the last one wins."""
    others = [name for name in before if name not in OURS]
    at = others.index(LAST) if LAST in others else len(others)
    return [*others[:at], wanted, *others[at:]]


def verified() -> str | None:
    """Return the complaint of `tuned-adm verify`, or None."""
    done = command.run(["tuned-adm", "verify"])
    return None if done.code == 0 else f"tuned-adm verify: {done.last}"


def apply(profiles: Sequence[str], timeout: float) -> None:
    """Apply and verify exactly these profiles, for now and for later boots."""
    command.output(["systemctl", "enable", "--now", SERVICE], hint="install tuned")
    done = command.run(["tuned-adm", "profile", *profiles], timeout)
    if done.code != 0:
        raise Problem(f"tuned-adm profile {' '.join(profiles)}: {done.last}", f"read {LOG}")
    complaint = _settled(profiles, timeout)
    if complaint:
        raise Problem(complaint, f"read {LOG}")


def _settled(profiles: Sequence[str], timeout: float) -> str | None:
    """Wait until the profiles are active; tuned-adm may return before the daemon has applied them."""
    deadline = time.monotonic() + timeout
    while True:
        found = active(command.run(["tuned-adm", "active"]).out)
        complaint = verified() if found == list(profiles) else f"tuned has `{' '.join(found)}` active instead"
        if complaint is None or time.monotonic() > deadline:
            return complaint
        time.sleep(POLL)


def restore(before: State, timeout: float, root: Path = Path("/")) -> None:
    """Restore the chosen profiles and whether tuned runs. Stopping it first makes it restore its values."""
    if not before.installed:
        command.run(["systemctl", "disable", "--now", SERVICE])
        return
    command.output(["systemctl", "stop", SERVICE])
    files.put(root / CHOICE, before.choice)
    files.put(root / MODE, before.mode)
    if before.enabled in ("enabled", "disabled"):
        command.output(["systemctl", "enable" if before.enabled == "enabled" else "disable", SERVICE])
    if not before.running:
        return
    command.output(["systemctl", "start", SERVICE])
    deadline = time.monotonic() + timeout
    while (found := active(command.run(["tuned-adm", "active"]).out)) != before.active:
        if time.monotonic() > deadline:
            was = " ".join(before.active) or "none"
            raise Problem(f"tuned has `{' '.join(found) or 'none'}` active, it was `{was}`", f"read {LOG}")
        time.sleep(POLL)


def restored(before: State, now: State) -> bool:
    if not before.installed:
        return not now.running
    return now == before
