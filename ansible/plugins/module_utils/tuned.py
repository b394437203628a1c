"""tuned: which profiles are in force, which are chosen for the next start, and both put back as they were."""

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
# What the second one says when somebody has chosen, and tuned has not picked by itself what suits the host.
BY_HAND = "manual"
ACTIVE = "Current active profile:"
OURS = ("thp-shrinker", "thp-shrinker-tight", "thp-baseline")
# linux-system-roles' kernel_settings expects to be the last.
LAST = "kernel_settings"
LOG = "/var/log/tuned/tuned.log"
POLL = 1.0


@dataclass(frozen=True)
class State:
    """`choice` and `mode` are the files by which tuned remembers what was chosen; `enabled` is systemd's word."""

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


def active(said: str) -> list[str]:
    """Read `tuned-adm active`. What it calls a preset profile is chosen but not in force."""
    return next((line[len(ACTIVE) :].split() for line in said.splitlines() if line.startswith(ACTIVE)), [])


def read(root: Path = Path("/")) -> State:
    asked = command.run(["tuned-adm", "active"])
    return State(
        installed=asked.code != command.NOT_THERE,
        running=command.run(["systemctl", "is-active", "--quiet", SERVICE]).code == 0,
        enabled=command.run(["systemctl", "is-enabled", SERVICE]).out.strip(),
        active=active(asked.out),
        choice=files.text(root / CHOICE),
        mode=files.text(root / MODE),
    )


def chosen(state: State) -> list[str]:
    """Return the profiles beside ours that are in force because somebody has chosen them."""
    by_hand = state.mode is not None and state.mode.strip() == BY_HAND
    return [name for name in state.active if by_hand and name not in OURS]


def with_profile(before: Sequence[str], wanted: str) -> list[str]:
    """Return the profiles that were active, with ours after them: of several the last one decides."""
    others = [name for name in before if name not in OURS]
    at = others.index(LAST) if LAST in others else len(others)
    return [*others[:at], wanted, *others[at:]]


def verified() -> str | None:
    """Return what `tuned-adm verify` has to complain about, or None."""
    done = command.run(["tuned-adm", "verify"])
    return None if done.code == 0 else f"tuned-adm verify: {done.last}"


def apply(profiles: Sequence[str], timeout: float) -> None:
    """Have exactly these profiles in force, now and after a reboot, and verified."""
    command.said(["systemctl", "enable", "--now", SERVICE], todo="install tuned")
    done = command.run(["tuned-adm", "profile", *profiles], timeout)
    if done.code != 0:
        raise Problem(f"tuned-adm profile {' '.join(profiles)}: {done.last}", f"read {LOG}")
    complaint = _settled(profiles, timeout)
    if complaint:
        raise Problem(complaint, f"read {LOG}")


def _settled(profiles: Sequence[str], timeout: float) -> str | None:
    """Wait until the profiles are in force; tuned-adm may return before the daemon is through."""
    deadline = time.monotonic() + timeout
    while True:
        found = active(command.run(["tuned-adm", "active"]).out)
        complaint = verified() if found == list(profiles) else f"tuned has `{' '.join(found)}` active instead"
        if complaint is None or time.monotonic() > deadline:
            return complaint
        time.sleep(POLL)


def restore(before: State, timeout: float, root: Path = Path("/")) -> None:
    """Put back what was chosen and whether tuned runs. Stopping it first has it take its own values back."""
    if not before.installed:
        command.run(["systemctl", "disable", "--now", SERVICE])
        return
    command.said(["systemctl", "stop", SERVICE])
    files.put(root / CHOICE, before.choice)
    files.put(root / MODE, before.mode)
    if before.enabled in ("enabled", "disabled"):
        command.said(["systemctl", "enable" if before.enabled == "enabled" else "disable", SERVICE])
    if not before.running:
        return
    command.said(["systemctl", "start", SERVICE])
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
