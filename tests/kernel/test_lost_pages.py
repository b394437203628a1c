"""What the gate's look for lost pages finds on a real kernel: nothing, or a page that only a pipe holds."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.vm import Vm
from tests.kernel import lost_pages

pytestmark = pytest.mark.full

# A page goes to a pipe without being copied, and its process lets go of it.
KEEP = """
import ctypes, mmap, os, sys

class Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

memory = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory[:4] = b"kept"
view = ctypes.c_char.from_buffer(memory)
_, end = os.pipe()
libc = ctypes.CDLL(None)
libc.vmsplice.restype = ctypes.c_ssize_t
assert libc.vmsplice(end, ctypes.byref(Iovec(ctypes.addressof(view), mmap.PAGESIZE)), 1, 0) == mmap.PAGESIZE
del view
memory.close()
open("/tmp/kept", "w").close()
sys.stdin.read()
"""


def look(vm: Vm) -> list[str]:
    return vm.run("python3 -I -", stdin=Path(lost_pages.__file__).read_text()).text.splitlines()


def test_a_page_that_only_a_pipe_holds_is_found_until_the_pipe_goes(host: Vm) -> None:
    assert look(host) == []
    host.run("cat > /tmp/keep.py", stdin=KEEP)
    keep = "{ sleep 600 | python3 -I /tmp/keep.py; } >/dev/null 2>/tmp/keep.err &"
    host.run(f"{keep} for i in $(seq 60); do test -e /tmp/kept && exit; sleep 1; done; cat /tmp/keep.err; exit 1")
    found = look(host)
    assert len(found) == 1, found
    assert lost_pages.is_lost(int(found[0].split()[1], 16))
    host.run("pkill -f keep.py")
    assert look(host) == []
