"""Read files and run programs on this host, and record which of them were not available."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM_TIMEOUT = 120.0
# Files that container managers create in their containers, and the name of the manager.
CONTAINER_MARKS = {"run/.containerenv": "podman", ".dockerenv": "docker"}


@dataclass(frozen=True)
class Output:
    """What a program printed, stdout and stderr together, and its exit code."""

    code: int
    text: str


class System:
    """Reads below a root directory. Any root but `/` is a recorded tree, where no program runs."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self.unseen: dict[str, str] = {}

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def read(self, name: str) -> str | None:
        """Return a file's text or None; record a file that exists but cannot be read."""
        try:
            return self.path(name).read_text(errors="replace")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            self.unseen[name] = error.strerror or type(error).__name__
            return None

    def word(self, name: str) -> str | None:
        """Return a file's text without surrounding white space."""
        text = self.read(name)
        return None if text is None else text.strip()

    def bytes_of(self, name: str) -> bytes | None:
        try:
            return self.path(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            self.unseen[name] = error.strerror or type(error).__name__
            return None

    def run(self, command: Sequence[str], timeout: float = PROGRAM_TIMEOUT) -> Output | None:
        """Run a program with messages in English. Return None and record why if it did not run or end in time."""
        if self.root != Path("/"):
            self.unseen[command[0]] = "not run: this is a recorded tree"
            return None
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except FileNotFoundError:
            self.unseen[command[0]] = "not installed"
        except PermissionError:
            self.unseen[command[0]] = "this user may not run it"
        except subprocess.TimeoutExpired:
            self.unseen[" ".join(command)] = f"did not end within {timeout:.0f} s"
        else:
            return Output(done.returncode, done.stdout)
        return None

    def container(self) -> str | None:
        """Return the kind of container this is, or None outside of one."""
        kind = self.word("/run/systemd/container")
        if kind:
            return kind
        environ = ""
        # Only root may read it. Nothing is recorded for other users: the marks below identify nearly every container.
        with contextlib.suppress(OSError):
            environ = self.path("/proc/1/environ").read_text(errors="replace")
        for entry in environ.split("\0"):
            if entry.startswith("container=") and len(entry) > len("container="):
                return entry[len("container=") :]
        return next((kind for mark, kind in CONTAINER_MARKS.items() if (self.root / mark).exists()), None)
