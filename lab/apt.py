"""What apt on this machine knows: where Debian's archive is, and which settings reach it."""

from __future__ import annotations

import subprocess

from scripts.console import UserError

# The suite of a lab host unless it says otherwise, and of this machine.
SUITE = "bookworm"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# Of this machine's settings, those that decide whether a source can be reached and believed.
SETTINGS = ("::Proxy", "Acquire::Check-", "Acquire::Retries")
FIELDS = "$(ORIGIN) $(CREATED_BY) $(CODENAME) $(REPO_URI) $(COMPONENT)"


def _indexes() -> list[list[str]]:
    """Return codename, address and component of each index of Debian's packages."""
    command = ["apt-get", "indextargets", "--format", FIELDS]
    listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [words[2:] for line in listing.splitlines() if (words := line.split())[:2] == ["Debian", "Packages"]]


def archive(suite: str) -> str:
    """Return the address of Debian's archive, which has more suites than this machine uses."""
    found = next((uri for codename, uri, component in _indexes() if (codename, component) == (SUITE, "main")), "")
    if not found:
        raise UserError(
            f"apt on this machine has no index of Debian {SUITE} main, which says where {suite} is",
            "add that suite to the apt sources and run `apt-get update`, then the same command again",
        )
    return found


def sources(suite: str) -> list[str]:
    """Return one-line apt sources of a suite: this machine's if it has some, with updates, else the archive's."""
    mine = {f"deb {uri} {name} {part}" for name, uri, part in _indexes() if name.split("-")[0] == suite}
    return sorted(mine) or [f"deb [signed-by={KEYRING}] {archive(suite)} {suite} main"]


def settings() -> list[str]:
    dump = subprocess.run(["apt-config", "dump", "Acquire"], check=True, capture_output=True, text=True).stdout
    return [line for line in dump.splitlines() if any(setting in line for setting in SETTINGS)]
