"""Repositories that a host must not trust, and one whose content changes when a release is published."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from lab import repo
from scripts import signing
from scripts.flavours import CLOUD

INDEX = Path("repodata") / "repomd.xml"


@contextmanager
def _stranger() -> Iterator[Path]:
    """Yield a keyring with a foreign key. Its path is short, because the path of its socket has to be."""
    with TemporaryDirectory(prefix="kt") as folder, signing.keyring(Path(folder)) as home:
        yield home


def with_foreign_metadata(folder: Path) -> Path:
    """Return a copy of the repository whose index was signed by somebody else."""
    shutil.copytree(repo.REPO, folder)
    with _stranger() as home:
        signing.sign_file(home, folder / INDEX)
    return folder


def with_foreign_package(folder: Path) -> Path:
    """Return a copy of the repository with one package that somebody else signed; the index is good."""
    shutil.copytree(repo.REPO, folder)
    (package,) = folder.glob(f"{CLOUD.core}-[0-9]*.rpm")
    with _stranger() as home:
        signing.sign_packages(home, [package])
    subprocess.run(["createrepo_c", "--quiet", str(folder)], check=True, stdin=subprocess.DEVNULL)
    with signing.keyring() as home:
        signing.sign_file(home, folder / INDEX)
    return folder


class Published:
    """A repository at one address, whose content is replaced atomically."""

    def __init__(self, link: Path) -> None:
        self.link = link

    def publish(self, directory: Path) -> None:
        part = self.link.with_name(f".{self.link.name}-{os.getpid()}")
        part.symlink_to(directory.resolve())
        part.replace(self.link)
