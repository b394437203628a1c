"""Print the name of each file in the arguments whenever a program writes to it, until killed. Runs on the host."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

IN_MODIFY = 0x2
EVENT = struct.Struct("iIII")


def main(names: list[str]) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    watcher = libc.inotify_init1(os.O_CLOEXEC)
    watched = {libc.inotify_add_watch(watcher, os.fsencode(name), IN_MODIFY): name for name in names}
    if -1 in watched:
        sys.exit(f"cannot watch {names}: {os.strerror(ctypes.get_errno())}")
    print("ready", flush=True)
    while True:
        # The events are those of files, not directories: none has a name, so all have the same size.
        for descriptor, *_ in EVENT.iter_unpack(os.read(watcher, 1 << 16)):
            print(watched[descriptor], flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
