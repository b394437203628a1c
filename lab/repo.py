"""Serve the dnf repositories of the guests: they reach loopback of this machine as 10.0.2.2."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts import repository, rpms
from scripts.console import UserError
from scripts.flavours import CLOUD, FLAVOURS
from scripts.rpms import Stage

REPO = CLOUD.repo
GUEST_GATEWAY = "10.0.2.2"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def made(directory: Path = REPO) -> bool:
    return (directory / "repodata" / "repomd.xml.asc").exists()


@contextmanager
def served(directory: Path = REPO) -> Iterator[str]:
    """Serve a repository on a free loopback port, and yield its URL as a guest sees it."""
    if not made(directory):
        flavour = next((known for known in FLAVOURS.values() if known.repo == directory), CLOUD)
        raise UserError(f"no signed repository in {directory}", f"run `make rpms FLAVOUR={flavour.name}`")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{GUEST_GATEWAY}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def beside_present(newer: Stage, directory: Path) -> Path:
    """Return a signed repository with the present packages and those of a stage that builds newer ones."""
    with rpms.alone(newer):
        rpms.build(newer)
        wanted = (REPO / ".inputs").read_text() + newer.stamp.read_text()
        stamp = directory / ".inputs"
        if not stamp.exists() or stamp.read_text() != wanted:
            repository.make([*sorted(REPO.glob("*.rpm")), *newer.packages], directory, wanted)
    return directory


def repo_file(url: str) -> str:
    """Return the .repo file of a host: packages and metadata must be signed."""
    lines = [
        "[kernel-thp]",
        "name=kernel-thp",
        f"baseurl={url}",
        "enabled=1",
        "gpgcheck=1",
        "repo_gpgcheck=1",
        f"gpgkey={url}/{rpms.KEY_NAME}",
    ]
    return "\n".join(lines) + "\n"
