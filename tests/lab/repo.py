"""Serve the dnf repository to the guests: loopback here is 10.0.2.2 there."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scripts.console import BUILD, UserError

REPO = BUILD / "repo"
KEY_NAME = "RPM-GPG-KEY-kernel-thp"
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
        hint = "`make rpms DEBUG=1`" if directory.name.endswith("-debug") else "`make rpms`"
        raise UserError(f"no signed repository in {directory}", f"run {hint}")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(directory)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{GUEST_GATEWAY}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def repo_file(url: str) -> str:
    """Return the .repo file of a host: packages and metadata have to be signed."""
    lines = [
        "[kernel-thp]",
        "name=kernel-thp",
        f"baseurl={url}",
        "enabled=1",
        "gpgcheck=1",
        "repo_gpgcheck=1",
        f"gpgkey={url}/{KEY_NAME}",
    ]
    return "\n".join(lines) + "\n"
