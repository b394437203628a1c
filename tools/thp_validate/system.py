"""One host as this process sees it: files and programs, and what of them could not be seen."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PROGRAM_TIMEOUT = 120.0
# Files that container managers leave in what they run, and what to call them.
CONTAINER_MARKS = {"run/.containerenv": "podman", ".dockerenv": "docker"}


@dataclass(frozen=True)
class Answer:
    """What a program said: both of its outputs, and its exit code."""

    code: int
    text: str


class System:
    """Reads below a root directory. Another root than `/` is a recorded tree, where no program can be asked."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self.unseen: dict[str, str] = {}

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def read(self, name: str) -> str | None:
        """Return a file's text, or None: a file that is not there is no surprise, one that cannot be read is noted."""
        try:
            return self.path(name).read_text(errors="replace")
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except OSError as error:
            self.unseen[name] = error.strerror or type(error).__name__
            return None

    def word(self, name: str) -> str | None:
        """Return a file's text without the white space around it."""
        text = self.read(name)
        return None if text is None else text.strip()

    def bytes_of(self, name: str) -> bytes | None:
        try:
            return self.path(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.unseen[name] = error.strerror or type(error).__name__
            return None

    def ask(self, command: Sequence[str], timeout: float = PROGRAM_TIMEOUT) -> Answer | None:
        """Run a program, in English; None if it is not there or did not end in time, which is noted."""
        if self.root != Path("/"):
            self.unseen[command[0]] = "not asked: this is a recorded tree"
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
            self.unseen[command[0]] = "may not be run by this user"
        except subprocess.TimeoutExpired:
            self.unseen[" ".join(command)] = f"did not end within {timeout:.0f} s"
        else:
            return Answer(done.returncode, done.stdout)
        return None

    def container(self) -> str | None:
        """Return what kind of container this is, or None outside of one."""
        told = self.word("/run/systemd/container")
        if told:
            return told
        environ = ""
        # Only root of the host may, and that others may not is worth no note: the marks are enough nearly always.
        with contextlib.suppress(OSError):
            environ = self.path("/proc/1/environ").read_text(errors="replace")
        for entry in environ.split("\0"):
            if entry.startswith("container=") and len(entry) > len("container="):
                return entry[len("container=") :]
        return next((kind for mark, kind in CONTAINER_MARKS.items() if (self.root / mark).exists()), None)
