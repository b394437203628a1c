"""What a host offers, seen from outside of its services: what was there before a rollout has to be there after it.

Failed units, mounted file systems, default routes and listening sockets, each as a word for its kind and a name that
the next boot gives it as well.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ansible_collections.kernel_thp.fleet.plugins.module_utils import command, files
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem

# The kinds in a record; all but the first have to be there again.
FAILED, MOUNTS, ROUTES, SOCKETS = "failed", "mounts", "routes", "sockets"
POLL = 2.0
PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Protocol, local port, and the first process with its number: as ss prints them, without a heading.
LISTENING = re.compile(r'^(\w+)\s+\S+\s+\d+\s+\d+\s+\S*:(\d+)\s+\S+(?:\s+users:\(\("([^"]+)",pid=(\d+))?', re.MULTILINE)
# The cgroup of what somebody started who had logged in.
SESSION = re.compile(r"/session-\w+\.scope\b")
# Clients of DHCP open and close these by themselves; the routes tell whether they work.
PASSING = ("udp port 68", "udp port 546")
# From these bindresvport(3) chooses, such as for rpc.statd and rpcbind: another one after each start.
RESERVED = range(600, 1024)
# Without the directory that a bind mount shows: with it, one of a tmpfs would look like a device.
MOUNTED = ("--nofsroot", "--raw", "--noheadings", "--output=TARGET,FSTYPE,SOURCE")
# Below these, kubelet and container engines mount the volumes of their containers: others after a reboot, or elsewhere.
# What is mounted at one of them is the host's own.
CONTAINERS = ("/var/lib/containers/", "/var/lib/docker/", "/var/lib/kubelet/plugins/", "/var/lib/kubelet/pods/")
Services = Mapping[str, Sequence[str]]


def read() -> dict[str, list[str]]:
    return {FAILED: failed(), MOUNTS: mounts(), ROUTES: routes(), SOCKETS: sockets()}


def lasting(
    look: Callable[[], dict[str, list[str]]] = read, sleep: Callable[[float], None] = time.sleep
) -> dict[str, list[str]]:
    """Return what two looks have in common, to be expected later.

    Some resolvers choose a port below those of the kernel for each query, and it would be missing ever after.
    """
    first = look()
    sleep(POLL)
    return {kind: [name for name in names if kind == FAILED or name in first[kind]] for kind, names in look().items()}


def _output(*words: str) -> str:
    """Return what a program prints; a host that lacks it has nothing to compare."""
    return command.run(words).out


def failed() -> list[str]:
    found = _output("systemctl", "list-units", "--state=failed", "--plain", "--no-legend", "--full")
    return sorted(line.split()[0] for line in found.splitlines() if line.strip())


def mounts() -> list[str]:
    """Return where file systems of devices and servers are mounted, but not those that come and go by themselves."""
    found = re.findall(r"^(\S+) (\S+) (.*)$", _output("findmnt", *MOUNTED), re.MULTILINE)
    themselves = ["/run", *(target for target, kind, _ in found if kind == "autofs")]
    real = {target for target, kind, source in found if kind != "autofs" and ("/" in source or ":" in source)}
    return sorted(target for target in real if not _below(target, themselves) and not target.startswith(CONTAINERS))


def _below(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder}/") for folder in folders)


def routes() -> list[str]:
    found = []
    for family in ("-4", "-6"):
        for route in json.loads(_output("ip", "-json", family, "route", "show", "default") or "[]"):
            for hop in route.get("nexthops", [route]):
                gateway = hop.get("gateway") or hop.get("via", {}).get("host", "")
                found.append(f"default {f'via {gateway} ' if gateway else ''}dev {hop.get('dev', '')}")
    return sorted(set(found))


def sockets() -> list[str]:
    """Return the ports on which something listens, and what listens on a port that the kernel chose.

    Addresses are left out: some of them are temporary, and a shared one is elsewhere while the host is out of service.
    So are forwarded ports and whatever else ends with the session of a person.
    """
    first, last = (int(word) for word in (files.word(PORTS) or "32768 60999").split())
    found = set()
    for protocol, port, process, number in LISTENING.findall(_output("ss", "-Hltunp")):
        if SESSION.search(files.text(Path("/proc", number or "1", "cgroup")) or ""):
            continue
        if protocol == "udp" and int(port) in RESERVED:
            continue
        if not first <= int(port) <= last:
            found.add(f"{protocol} port {port}")
        elif protocol == "tcp" and process:
            found.add(f"{protocol} port of {process}")
    return sorted(found.difference(PASSING))


def difference(before: Services, now: Services, allowed: Sequence[str]) -> list[str]:
    """Return what a host has lost, one sentence each, without what an operator allows."""
    lost = {f"unit {name}": "has failed" for name in now[FAILED] if name not in before[FAILED]}
    for kind in (MOUNTS, ROUTES, SOCKETS):
        lost |= {f"{kind[:-1]} {name}": "is missing" for name in before[kind] if name not in now[kind]}
    # Records of earlier versions have them.
    lost = {
        what: how for what, how in lost.items() if not what.startswith(tuple(f"mount {path}" for path in CONTAINERS))
    }
    try:
        patterns = [re.compile(pattern) for pattern in allowed]
    except re.error as error:
        raise Problem(f"a pattern of differences to allow is not a regular expression: {error}", "correct it") from None
    return [f"{what} {how}" for what, how in lost.items() if not any(each.fullmatch(what) for each in patterns)]


def expected(before: Services, drained: Services) -> dict[str, list[str]]:
    """Return what a host has to offer while it is out of service: not what the drain took away."""
    both = {kind: [name for name in before[kind] if name in drained[kind]] for kind in (MOUNTS, ROUTES, SOCKETS)}
    return {FAILED: [*before[FAILED], *drained[FAILED]], **both}


def wait(
    before: Services,
    allowed: Sequence[str],
    timeout: float,
    look: Callable[[], Services] = read,
    sleep: Callable[[float], None] = time.sleep,
) -> list[str]:
    """Return what is still different after this time: services may start late, and a boot may go on."""
    deadline = time.monotonic() + timeout
    while (found := difference(before, look(), allowed)) and time.monotonic() < deadline:
        sleep(POLL)
    return found
