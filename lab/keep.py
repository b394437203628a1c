"""Keep a lab host running between commands, for tools with separate commands to start and stop a host.

    python3 -m lab.keep up NAME       starts one with the repository configured, prints its address as JSON
    python3 -m lab.keep down NAME     stops it; not an error if there is none

The host and the repository belong to a process in the background, which ends by itself after two hours.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time

from lab import image, repo
from lab.host import Host
from lab.vm import RUN, Vm
from scripts import files
from scripts.console import ROOT, UserError, main, tail

LIFETIME = 2 * 3600.0
START_TIMEOUT = 900.0
STOP_TIMEOUT = 60.0
POLL = 0.5
MEMORY_MIB = 1024


class Kept:
    """The files of one such host."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.directory = RUN / f"keep-{name}"
        self.address = self.directory.with_suffix(".json")
        self.pid = self.directory.with_suffix(".pid")
        self.log = self.directory.with_suffix(".log")
        # The machine holds it for as long as it runs, see Vm.
        self.lock = self.directory.with_suffix(".lock")

    def alive(self) -> bool:
        if not self.lock.exists():
            return False
        with self.lock.open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False


def hold(kept: Kept) -> None:
    """Run the host; this is the process in the background."""
    machine = Vm(image.build(), kept.directory, kept.name, cpus=2, memory_mib=MEMORY_MIB)
    with repo.served() as url, machine as vm:
        vm.wait_ssh()
        host = Host(vm)
        host.use_repository(url)
        host.trust_repository()
        address = {"address": "127.0.0.1", "port": vm.port, "user": "root", "identity_file": str(image.ssh_key())}
        files.replace(kept.address, json.dumps([{"instance": kept.name, **address}]))
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(LIFETIME)
        kept.address.unlink()


def up(kept: Kept) -> None:
    if not kept.alive():
        kept.address.unlink(missing_ok=True)
        RUN.mkdir(parents=True, exist_ok=True)
        with kept.log.open("wb") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", __spec__.name, "hold", kept.name],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        kept.pid.write_text(f"{child.pid}\n")
        deadline = time.monotonic() + START_TIMEOUT
        while not kept.address.exists():
            if child.poll() is not None or time.monotonic() > deadline:
                child.terminate()
                raise UserError(f"{kept.name} did not start: {' '.join(tail(kept.log, 2))}", f"read {kept.log}")
            time.sleep(POLL)
    print(kept.address.read_text())


def down(kept: Kept) -> None:
    if kept.alive():
        os.kill(int(kept.pid.read_text()), signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT
    while kept.alive():
        if time.monotonic() > deadline:
            raise UserError(f"{kept.name} does not stop", f"read {kept.log}")
        time.sleep(POLL)


def command() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["up", "down", "hold"])
    parser.add_argument("name")
    given = parser.parse_args()
    {"up": up, "down": down, "hold": hold}[given.what](Kept(given.name))


if __name__ == "__main__":
    main(command)
