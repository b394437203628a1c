"""The tuned profile: what tuned says is active, and whether it finds its values in force."""

from __future__ import annotations

from dataclasses import dataclass, field

from .system import Answer, System

OURS = ("thp-shrinker", "thp-shrinker-tight")
BASELINE = "thp-baseline"
ACTIVE = "Current active profile:"
PRESET = "Preset profile:"
# The word before it is misspelt in tuned 2.20, and may not be in others.
SUCCEEDED = " succeeded"
FAILED = "Verification failed"


@dataclass
class Profile:
    """`at_boot` is None when systemd could not be asked; `verified` when tuned could not, with why it is in `said`."""

    installed: bool = False
    running: bool = False
    at_boot: bool | None = None
    active: list[str] = field(default_factory=list)
    verified: bool | None = None
    said: str = ""

    @property
    def ours(self) -> str | None:
        return next((name for name in self.active if name in OURS), None)


def look(system: System) -> Profile:
    profile = Profile()
    if system.container():
        return profile
    active = system.ask(["tuned-adm", "active"])
    if active is None:
        return profile
    profile.installed = True
    profile.running, profile.active = names(active)
    enabled = system.ask(["systemctl", "is-enabled", "tuned"])
    profile.at_boot = None if enabled is None else enabled.code == 0
    if profile.running and profile.active:
        verify = system.ask(["tuned-adm", "verify"])
        if verify is not None:
            profile.verified, profile.said = verdict(verify)
    return profile


def names(answer: Answer) -> tuple[bool, list[str]]:
    """Return whether the daemon runs, and the profiles: those in force, or else those it would start with."""
    running, found = True, []
    for line in answer.text.splitlines():
        if line.startswith(ACTIVE):
            found = line[len(ACTIVE) :].split()
        elif line.startswith(PRESET):
            running, found = False, line[len(PRESET) :].split()
        elif "daemon is not running" in line or "Cannot talk to TuneD daemon" in line:
            running = False
    return running, found


def verdict(answer: Answer) -> tuple[bool | None, str]:
    """Read the verdict out of the text: the exit code alone is the same when tuned could not be asked."""
    said = " ".join(answer.text.split())
    if answer.code == 0 and SUCCEEDED in answer.text:
        return True, said
    return (False if FAILED in answer.text else None), said
