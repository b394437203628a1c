"""The Ansible collection of ansible/: where Ansible, mypy and pytest find it, and the archive for galaxy."""

from __future__ import annotations

import argparse
from pathlib import Path

from scripts.console import BUILD, ROOT, main, run_logged, say

SOURCE = ROOT / "ansible"
# Ansible finds a collection by its name below this directory.
PLACE = BUILD / "collections"
LINK = PLACE / "ansible_collections" / "kernel_thp" / "fleet"
ARCHIVES = BUILD / "galaxy"


def link() -> Path:
    """Make the collection visible without installing it; return the directory to search."""
    if not LINK.is_symlink() or LINK.resolve() != SOURCE:
        LINK.parent.mkdir(parents=True, exist_ok=True)
        LINK.unlink(missing_ok=True)
        LINK.symlink_to(SOURCE)
    return PLACE


def build() -> Path:
    """Make the archive that `ansible-galaxy collection install` takes."""
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
