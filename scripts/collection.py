"""The Ansible collection of ansible/: a link for Ansible, mypy and pytest, and the archive for ansible-galaxy."""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.console import BUILD, ROOT, main, run_logged, say

SOURCE = ROOT / "ansible"
# The search path in which a collection is found under its name.
SEARCH_PATH = BUILD / "collections"
LINK = SEARCH_PATH / "ansible_collections" / "kernel_thp" / "fleet"
ARCHIVES = BUILD / "galaxy"


def link() -> Path:
    """Link the collection into a search path instead of installing it, and return that path."""
    if not LINK.is_symlink() or LINK.resolve() != SOURCE:
        LINK.parent.mkdir(parents=True, exist_ok=True)
        LINK.unlink(missing_ok=True)
        LINK.symlink_to(SOURCE)
    return SEARCH_PATH


def build() -> Path:
    """Make the archive for `ansible-galaxy collection install`."""
    for old in ARCHIVES.glob("*.tar.gz"):
        old.unlink()
    galaxy = BUILD / "venv" / "bin" / "ansible-galaxy"
    command = [str(galaxy), "collection", "build", "--force", "--output-path", str(ARCHIVES), str(SOURCE)]
    run_logged(command, BUILD / "logs" / "galaxy.log", "ansible-galaxy", "fix what it reports about galaxy.yml")
    (archive,) = ARCHIVES.glob("kernel_thp-fleet-*.tar.gz")
    return archive


def command() -> None:
    parser = argparse.ArgumentParser(description="Make the archive of the Ansible collection.")
    parser.add_argument("--link", action="store_true", help="only link it into build/collections")
    if parser.parse_args().link:
        link()
    else:
        say(f"collection: {build().relative_to(ROOT)}")


if __name__ == "__main__":
    main(command)
