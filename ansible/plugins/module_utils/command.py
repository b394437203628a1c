"""Run a program of the host, in English."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

TIMEOUT = 300.0
# As a shell has it.
NOT_RUN, NOT_THERE = 126, 127


@dataclass(frozen=True)
class Done:
    """What a program said, and its exit code; or why it could not be started."""

    code: int
    out: str
    err: str
    started: bool = True

    @property
    def last(self) -> str:
        """Return the line that most likely says what went wrong, without what would make it several."""
        lines = [line.strip() for line in (self.err or self.out).splitlines() if line.strip()]
        return lines[-1][:300] if lines else "it said nothing"


def run(command: Sequence[str], timeout: float | None = TIMEOUT, descriptors: Sequence[int] = ()) -> Done:
    """Run a program to its end. One that cannot be started ends as in a shell; one that takes too long is a problem."""
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
        # Or, of a script, what its first line names.
        return Done(NOT_THERE, "", f"{command[0]} is not installed", started=False)
    except OSError as error:
        return Done(NOT_RUN, "", f"{command[0]}: {error.strerror}", started=False)
    except subprocess.TimeoutExpired:
        raise Problem(f"`{' '.join(command)}` did not end within {timeout:.0f} s", "see what it waits for") from None
    return Done(done.returncode, done.stdout, done.stderr)


def said(command: Sequence[str], timeout: float | None = TIMEOUT, todo: str = "") -> str:
    """Return what a program printed; that it fails is a problem."""
    done = run(command, timeout)
    if done.code != 0:
        raise Problem(f"`{' '.join(command)}` ended with {done.code}: {done.last}", todo)
    return done.out
