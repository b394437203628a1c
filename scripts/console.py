"""Shared by all commands of this project: progress with elapsed time, logged sub-commands, one-line errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from scripts.errors import UserError as UserError

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
HEARTBEAT = 30.0
INTERRUPTED = 130

_start = time.monotonic()


def say(text: str) -> None:
    """Print one line with the minutes and seconds since the command began."""
    seconds = int(time.monotonic() - _start)
    print(f"[{seconds // 60:3d}:{seconds % 60:02d}] {text}", flush=True)


@contextmanager
def step(title: str) -> Iterator[None]:
    """Announce a piece of work, and how long it took once it has succeeded."""
    say(f"{title} ...")
    began = time.monotonic()
    yield
    say(f"{title}: done in {time.monotonic() - began:.0f} s")


def _last_line(log: Path) -> str:
    lines = tail(log, 1)
    return lines[0].strip()[:100] if lines else ""


def tail(log: Path, count: int) -> list[str]:
    """Return the last lines of a log that may still be growing."""
    if not log.exists():
        return []
    with log.open("rb") as handle:
        handle.seek(max(0, log.stat().st_size - 200 * count - 4096))
        return handle.read().decode(errors="replace").splitlines()[-count:]


def run_logged(
    command: Sequence[str],
    log: Path,
    what: str,
    hint: str,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run a long command with its output in a log, and print its last line now and then.

    The command gets its own process group, so an interrupt ends all of its processes.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as handle:
        child = subprocess.Popen(
            list(command),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            while True:
                try:
                    code = child.wait(timeout=HEARTBEAT)
                    break
                except subprocess.TimeoutExpired:
                    say(f"  {what}: {_last_line(log)}")
        except BaseException:
            os.killpg(child.pid, signal.SIGTERM)
            child.wait()
            raise
    if code != 0:
        for line in tail(log, 15):
            print(f"    {line}", file=sys.stderr)
        raise UserError(f"{what} failed with exit code {code} (log: {log})", hint)


def main(command: Callable[[], int | None]) -> None:
    """Run a command's entry point: an error is one clear line, an interrupt is one line that says how to continue."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        sys.exit(command() or 0)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted: what is finished is kept, run the same make target again to go on", file=sys.stderr)
        sys.exit(INTERRUPTED)
    except OSError as error:
        if error.errno == 28:
            print("error: no space left on the disk; free some (a build needs 15 GiB) and run again", file=sys.stderr)
            sys.exit(1)
        raise
