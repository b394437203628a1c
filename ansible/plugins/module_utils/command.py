"""Run a program of the host, in English."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem, without_passwords

TIMEOUT = 300.0
# As a shell does.
NOT_RUN, NOT_THERE = 126, 127


@dataclass(frozen=True)
class Done:
    """The output and exit code of a program, or why it could not be started."""

    code: int
    out: str
    err: str
    started: bool = True

    @property
    def last(self) -> str:
        """Return the one line that most likely says what went wrong."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return without_passwords(lines[-1])[:300] if lines else "it printed nothing"


def run(command: Sequence[str], timeout: float | None = TIMEOUT, descriptors: Sequence[int] = ()) -> Done:
    """Run a program to its end. Return a shell's exit code if it cannot start; raise Problem if it takes too long."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            check=False,
            pass_fds=descriptors,
            env={**os.environ, "LC_ALL": "C", "LANGUAGE": ""},
        )
    except FileNotFoundError:
        # The program, or the interpreter that a script names in its first line.
        return Done(NOT_THERE, "", f"{command[0]} is not installed", started=False)
    except OSError as error:
        return Done(NOT_RUN, "", f"{command[0]}: {error.strerror}", started=False)
    except subprocess.TimeoutExpired:
        raise Problem(f"`{' '.join(command)}` did not end within {timeout:.0f} s", "see what it waits for") from None
    return Done(done.returncode, done.stdout, done.stderr)


def output(command: Sequence[str], timeout: float | None = TIMEOUT, hint: str = "") -> str:
    """Return what a program printed. Raise Problem if it fails."""
    done = run(command, timeout)
    if done.code != 0:
        raise Problem(f"`{' '.join(command)}` ended with {done.code}: {done.last}", hint)
    return done.out
