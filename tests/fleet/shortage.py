"""Make memory short on a host, as its own services would: each of these is a service with a limit of its own."""

from __future__ import annotations

from tests.fleet.hosts import Member

# Leaves its cgroup less than a huge page, and then asks for huge pages over and over: each fault gets a small page.
NO_HUGE_PAGES = """\
import mmap, pathlib
path = pathlib.Path("/proc/self/cgroup").read_text().strip().split(":")[2]
group = pathlib.Path("/sys/fs/cgroup" + path)
(group / "memory.max").write_text(str(int((group / "memory.current").read_text()) + (1 << 20)))
while True:
    with mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as area:
        for start in range(0, len(area), 2 << 20):
            area[start] = 1
"""
# Beyond memory.high, with no swap: the kernel makes the program wait at each step.
WAITS = 'b"x" * (512 << 20)'
# Beyond memory.max.
KILLED = 'b"x" * (128 << 20)'


def _service(member: Member, limit: str, text: str) -> None:
    member.vm.write("/root/lab-shortage.py", text)
    member.vm.run(f'systemd-run --quiet --collect -p {limit} python3 -c "$(cat /root/lab-shortage.py)"')


def no_huge_pages(member: Member) -> None:
    _service(member, "MemoryMax=infinity", NO_HUGE_PAGES)


def waiting(member: Member) -> None:
    _service(member, "MemoryHigh=16M", WAITS)


def oom_kill(member: Member) -> None:
    _service(member, "MemoryMax=32M", KILLED)
