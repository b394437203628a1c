"""The tuned profile: which one is active, and whether tuned verifies its values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from .system import Output, System

OURS = ("thp-shrinker", "thp-shrinker-tight")
BASELINE = "thp-baseline"
ACTIVE = "Current active profile:"
PRESET = "Preset profile:"
# tuned 2.20 misspells the word before it, and other versions need not.
SUCCEEDED = " succeeded"
FAILED = "Verification failed"


@dataclass
class Profile:
    """tuned and its profiles."""

    installed: Annotated[bool, "whether tuned-adm is installed"] = False
    version: Annotated[str | None, "of tuned"] = None
    running: Annotated[bool, "whether the daemon runs"] = False
    at_boot: Annotated[bool | None, "whether systemd starts the daemon at boot; null: systemctl could not run"] = None
    active: Annotated[list[str], "the active profiles; those it would start with if the daemon does not run"] = field(
        default_factory=list
    )
    verified: Annotated[bool | None, "the result of tuned-adm verify; null: it did not run, or gave no verdict"] = None
    message: Annotated[str, "what tuned-adm verify printed"] = ""

    @property
    def ours(self) -> str | None:
        return next((name for name in self.active if name in OURS), None)


def collect(system: System) -> Profile:
    profile = Profile()
    if system.container():
        return profile
    active = system.run(["tuned-adm", "active"])
    if active is None:
        return profile
    profile.installed = True
    profile.version = version(system.run(["tuned-adm", "--version"]))
    profile.running, profile.active = names(active)
    enabled = system.run(["systemctl", "is-enabled", "tuned"])
    profile.at_boot = None if enabled is None else enabled.code == 0
    if profile.running and profile.active:
        verify = system.run(["tuned-adm", "verify"])
        if verify is not None:
            profile.verified, profile.message = verdict(verify)
    return profile


def version(output: Output | None) -> str | None:
    return output.text.split()[-1] if output and output.code == 0 and output.text.split() else None


def names(output: Output) -> tuple[bool, list[str]]:
    """Return whether the daemon runs, and its profiles: the active ones, else those it would start with."""
    running, found = True, []
    for line in output.text.splitlines():
        if line.startswith(ACTIVE):
            found = line[len(ACTIVE) :].split()
        elif line.startswith(PRESET):
            running, found = False, line[len(PRESET) :].split()
        elif "daemon is not running" in line or "Cannot talk to TuneD daemon" in line:
            running = False
    return running, found


def verdict(output: Output) -> tuple[bool | None, str]:
    """Read the verdict from the text: tuned-adm exits with the same code when it cannot reach the daemon."""
    message = " ".join(output.text.split())
    if output.code == 0 and SUCCEEDED in output.text:
        return True, message
    return (False if FAILED in output.text else None), message
