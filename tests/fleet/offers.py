"""Make a host offer something: a file system, a route and a port, as units of its own that may not like a kernel."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fleet.hosts import Member

PORT = 8001
# Section [Service] of each unit.
MOUNT = ("Type=oneshot", "RemainAfterExit=yes", "ExecStart=/bin/mount -o loop /root/lab.img /srv")
# No packet takes it, as those of the network have a smaller metric.
ROUTE = ("Type=oneshot", "RemainAfterExit=yes", "ExecStart=/bin/ip -4 route add default dev lo metric 9999")
LISTEN = (f"ExecStart=/usr/bin/python3 -m http.server {PORT} --bind 127.0.0.1", "WorkingDirectory=/srv")
FAIL = ("Type=oneshot", "ExecStart=/bin/false")
HANG_TEXT = "lab: this shutdown hangs"
HANG = (
    "Type=oneshot",
    "RemainAfterExit=yes",
    "ExecStart=/bin/true",
    f"ExecStop=/bin/sh -c 'echo {HANG_TEXT} > /dev/console; sleep infinity'",
    "TimeoutStopSec=infinity",
)
IMAGE = "truncate -s 32M /root/lab.img && mkfs.ext4 -q /root/lab.img"
ROUTED = "ip -4 route show default | grep 'dev lo'"
LISTENS = f"until ss -Hltn 'sport = :{PORT}' | grep -q .; do sleep 1; done"


def unit(member: Member, name: str, lines: tuple[str, ...], uname: str = "*") -> None:
    """Have a service start at each boot of a kernel, and now if that runs."""
    sections: Mapping[str, tuple[str, ...]] = {
        "Unit": (f"ConditionKernelVersion={uname}",),
        "Service": lines,
        "Install": ("WantedBy=multi-user.target",),
    }
    text = "\n".join(f"[{section}]\n" + "\n".join(content) for section, content in sections.items())
    member.vm.write(f"/etc/systemd/system/{name}.service", text + "\n")
    member.vm.run(f"systemctl daemon-reload && systemctl enable --quiet --now {name}")


def port(member: Member, uname: str = "*") -> None:
    unit(member, "lab-port", LISTEN, uname)
    member.vm.run(LISTENS)


def mount(member: Member, uname: str) -> None:
    member.vm.run(IMAGE)
    unit(member, "lab-mount", MOUNT, uname)
    member.vm.run("findmnt /srv")


def route(member: Member, uname: str) -> None:
    unit(member, "lab-route", ROUTE, uname)
    member.vm.run(ROUTED)


def hanging(member: Member, uname: str) -> None:
    """Offer nothing, and never end when the host shuts down."""
    unit(member, "lab-hanging", HANG, uname)


def failing(member: Member, uname: str) -> None:
    unit(member, "lab-failing", FAIL, uname)
