"""What a host offers: it is read as the programs of a host print it, and must not be less after a rollout."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from ansible_collections.kernel_thp.fleet.plugins.filter import fleet
from ansible_collections.kernel_thp.fleet.plugins.module_utils import booting, command, services, snapshot
from ansible_collections.kernel_thp.fleet.plugins.module_utils import record as records
from ansible_collections.kernel_thp.fleet.plugins.module_utils.booting import Trial
from ansible_collections.kernel_thp.fleet.plugins.module_utils.command import Done
from ansible_collections.kernel_thp.fleet.plugins.module_utils.problem import Problem
from ansible_collections.kernel_thp.fleet.plugins.modules import evaluate

from scripts import collection
from tests.unit.boot_tree import NEW, Tree
from tests.unit.plays import play
from tests.unit.simulated import Host

# The kernel chooses no port below this.
FIRST = int(services.PORTS.read_text().split()[0])
HAS = {"failed": ["a.service"], "mounts": ["/", "/srv"], "routes": ["default via 192.0.2.1 dev eth0"], "sockets": []}
HAD = {**HAS, "sockets": ["tcp port 22", "tcp port 443"]}


def says(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    """Have a program print this."""
    (folder / "text").write_text(text)
    (folder / name).write_text(f"#!/bin/sh\ncat {folder}/text\n")
    (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Listen, with TCP and UDP, on one port that the kernel would not choose, and on one that it chose."""
    chosen = [socket.socket(socket.AF_INET, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
    fixed = [socket.socket(socket.AF_INET6, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
    for port in range(FIRST - 1, FIRST - 100, -1):
        try:
            for each in fixed:
                each.bind(("::1", port))
            break
        except OSError:
            fixed = [socket.socket(socket.AF_INET6, kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM)]
    for each in chosen:
        each.bind(("127.0.0.1", 0))
    for each in (fixed[0], chosen[0]):
        each.listen()
    yield port, chosen[0].getsockname()[1]
    for each in (*fixed, *chosen):
        each.close()


def test_ports_are_those_on_which_something_listens(ports: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    fixed, chosen = ports
    # Somebody who has logged in may run these tests.
    monkeypatch.setattr(services, "SESSION", re.compile("no session"))
    found = services.sockets()
    assert {f"tcp port {fixed}", f"udp port {fixed}"} <= set(found)
    # The next boot chooses another one: the program stands for it. A UDP socket may be that of a query.
    name = Path("/proc/self/comm").read_text().strip()
    assert f"tcp port of {name}" in found
    assert not [line for line in found if line.endswith(f" {chosen}") or line == f"udp port of {name}"]


def test_a_port_that_a_program_chose_among_the_reserved_ones_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "SESSION", re.compile("no session"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statd:
        for port in range(1023, 599, -1):
            with suppress(OSError):
                statd.bind(("127.0.0.1", port))
                break
        assert f"udp port {port}" not in services.sockets()


def test_what_ends_with_the_session_of_a_person_does_not_count(
    ports: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "SESSION", re.compile(re.escape(Path("/proc/self/cgroup").read_text())))
    assert [line for line in services.sockets() if line.endswith(f" {ports[0]}")] == []


@pytest.mark.parametrize(
    ("cgroup", "ends"),
    [
        ("0::/user.slice/user-1000.slice/session-12.scope\n", True),
        ("0::/user.slice/user-0.slice/session-c1.scope/x\n", True),
        # Services of a user go on without a session.
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/web.service\n", False),
        ("0::/system.slice/session-store.service\n", False),
    ],
)
def test_a_session_is_told_by_its_cgroup(cgroup: str, ends: bool) -> None:
    assert bool(services.SESSION.search(cgroup)) == ends


def test_of_mounts_those_of_devices_and_servers_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "/ ext4 /dev/vda2",
        "/proc proc proc",
        "/efi autofs systemd-1",
        "/efi vfat /dev/vda1",
        "/home autofs /etc/auto.home",
        "/home/ann nfs4 home.example.org:/ann",
        "/homes xfs /dev/mapper/homes",
        "/run/media/ann/stick vfat /dev/sdb1",
        "/srv/my\\x20share cifs //files.example.org/share",
        "/tank/db zfs tank/db",
        "/tmp tmpfs tmpfs",
        "/var/lib/containers/storage/overlay/1/merged overlay overlay",
    )
    says(tmp_path, monkeypatch, "findmnt", "".join(f"{line}\n" for line in lines))
    assert services.mounts() == ["/", "/homes", "/srv/my\\x20share", "/tank/db"]


def test_mounts_of_containers_come_and_go_and_those_that_they_are_on_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod, csi = "/var/lib/kubelet/pods/3f6c", "/var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com/9b1d"
    lines = (
        "/var/lib/containers xfs /dev/vdb",
        "/var/lib/containers/storage/overlay xfs /dev/vdb",
        "/var/lib/containers/storage/volumes/web/_data nfs4 files.example.org:/web",
        "/var/lib/docker ext4 /dev/vdc",
        "/var/lib/docker/devicemapper/mnt/1a xfs /dev/mapper/docker-1a",
        "/var/lib/docker-data ext4 /dev/vdd",
        "/var/lib/kubelet ext4 /dev/vde",
        f"{csi}/globalmount ext4 /dev/nvme1n1",
        f"{pod}/volumes/kubernetes.io~csi/pvc-1/mount ext4 /dev/nvme1n1",
        f"{pod}/volumes/kubernetes.io~nfs/home nfs4 files.example.org:/home",
        "/run/user/1000/doc fuse.sshfs ann@files.example.org:/doc",
    )
    says(tmp_path, monkeypatch, "findmnt", "".join(f"{line}\n" for line in lines))
    kept = ["containers", "docker", "docker-data", "kubelet"]
    assert services.mounts() == [f"/var/lib/{name}" for name in kept]
    # Those that an earlier version noted before the rollout are not missed.
    kinds = (services.FAILED, services.MOUNTS, services.ROUTES, services.SOCKETS)
    none: dict[str, list[str]] = {kind: [] for kind in kinds}
    before = {**none, services.MOUNTS: ["/var/lib/docker-data", "/var/lib/docker/devicemapper/mnt/1a"]}
    assert services.difference(before, none, []) == ["mount /var/lib/docker-data is missing"]


def test_a_directory_of_a_file_system_without_a_device_is_mounted_without_one(tmp_path: Path) -> None:
    """With the real programs, in a namespace of their own."""
    memory, bound = tmp_path / "memory", tmp_path / "bound"
    for folder in (memory, bound):
        folder.mkdir()
    script = f"mount -t tmpfs lab {memory} && mkdir {memory}/a && mount --bind {memory}/a {bound} && exec {{}}"
    words = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    seen = subprocess.run([*words, script.format("findmnt")], capture_output=True, text=True, check=True).stdout
    assert f"{bound} " in seen and "lab[/a]" in seen
    call = f"{sys.executable} -c 'import {services.__name__} as s; print(*s.mounts())'"
    environment = {**os.environ, "PYTHONPATH": str(collection.link())}
    done = subprocess.run([*words, script.format(call)], env=environment, capture_output=True, text=True, check=True)
    assert [path for path in done.stdout.split() if path in (str(memory), str(bound))] == []


def test_default_routes_are_by_gateway_and_interface(monkeypatch: pytest.MonkeyPatch) -> None:
    hops = [{"gateway": "192.0.2.1", "dev": "eth0"}, {"via": {"family": "inet6", "host": "fe80::2"}, "dev": "eth1"}]
    answers = {
        "-4": [{"dst": "default", "nexthops": hops}, {"dst": "default", "dev": "wg0", "scope": "link"}],
        "-6": [{"dst": "default", "gateway": "fe80::1", "dev": "eth0", "protocol": "ra", "expires": 1789}],
    }
    monkeypatch.setattr(command, "run", lambda words: Done(0, json.dumps(answers[words[2]]), ""))
    gateways = ("192.0.2.1 dev eth0", "fe80::1 dev eth0", "fe80::2 dev eth1")
    assert services.routes() == ["default dev wg0", *(f"default via {gateway}" for gateway in gateways)]


def test_failed_units_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    says(tmp_path, monkeypatch, "systemctl", "b.service loaded failed failed A service\na.mount not-found failed x\n")
    assert services.failed() == ["a.mount", "b.service"]


def test_a_host_without_these_programs_has_nothing_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert services.read() == {"failed": [], "mounts": [], "routes": [], "sockets": []}


@pytest.mark.parametrize(
    ("now", "lost"),
    [
        (HAD, []),
        ({**HAD, "failed": [], "mounts": ["/", "/srv", "/new"]}, []),
        ({**HAD, "failed": ["a.service", "kdump.service"]}, ["unit kdump.service has failed"]),
        ({**HAD, "mounts": ["/"]}, ["mount /srv is missing"]),
        ({**HAD, "routes": []}, ["route default via 192.0.2.1 dev eth0 is missing"]),
        ({**HAD, "sockets": ["tcp port 22"]}, ["socket tcp port 443 is missing"]),
    ],
)
def test_what_was_there_and_is_not_is_lost_and_what_is_new_is_not(now: dict[str, Any], lost: list[str]) -> None:
    assert services.difference(HAD, now, []) == lost
    # An operator allows it by its whole name.
    allowed = [sentence.removesuffix(" is missing").removesuffix(" has failed") for sentence in lost]
    assert services.difference(HAD, now, allowed) == []
    assert services.difference(HAD, now, [pattern[:-1] for pattern in allowed]) == lost


def test_what_the_drain_took_away_is_expected_after_the_return_only() -> None:
    drained = {**HAS, "failed": ["drained.service"], "mounts": ["/"]}
    expected = services.expected(HAD, drained)
    assert services.difference(expected, {**drained, "failed": ["a.service", "drained.service"]}, []) == []
    assert services.difference(expected, {**drained, "mounts": []}, []) == ["mount / is missing"]
    assert len(services.difference(HAD, drained, [])) == 4


def test_what_is_there_for_a_moment_is_not_expected_to_be_there_again() -> None:
    """A port of dnsmasq for one query; but a unit that has failed has failed, at whichever look."""
    looks = iter(
        [{**HAD, "sockets": ["tcp port 22", "udp port 20000"], "failed": []}, {**HAD, "mounts": ["/", "/new"]}]
    )
    slept: list[float] = []
    found = services.lasting(look=lambda: next(looks), sleep=slept.append)
    assert found == {**HAD, "sockets": ["tcp port 22"], "mounts": ["/"]}
    assert slept == [services.POLL]


def test_services_may_start_late_but_not_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([HAS, HAS, HAD])
    slept: list[float] = []
    assert services.wait(HAD, [], 60, look=lambda: next(looks), sleep=slept.append) == []
    assert len(slept) == 2
    assert len(services.wait(HAD, [], 0, look=lambda: HAS, sleep=slept.append)) == 2
    assert len(slept) == 2


@pytest.fixture
def evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Any]:
    """Arguments of the module evaluate on a host that was drained, and has lost what the drain took away."""
    monkeypatch.setattr(records.Store.__init__, "__defaults__", (tmp_path,))
    monkeypatch.setattr(services, "wait", lambda had, allowed, _: services.difference(had, HAS, allowed))
    before = {"services": {**HAD, "mounts": ["/", "/srv", "/gone"]}}
    record = {"schema": records.SCHEMA, "before": before, "while_drained": {**HAS, "mounts": ["/", "/gone"]}}
    records.Store(tmp_path).write(record)
    return {name: about["default"] for name, about in evaluate.ARGUMENTS.items()}


@pytest.mark.parametrize(
    ("which", "lost"),
    [
        ("ignored", []),
        ("drained", ["mount /gone is missing"]),
        ("all", ["mount /gone is missing", "socket tcp port 22 is missing", "socket tcp port 443 is missing"]),
    ],
)
def test_the_gate_expects_less_before_the_return_than_after_the_soak(
    evaluated: Mapping[str, Any], which: str, lost: list[str]
) -> None:
    record = records.Store().read()
    assert evaluate.lost({**evaluated, "services": which}, record) == lost
    allowed = {**evaluated, "services": which, "services_allowed": ["mount /gone", "socket .*"]}
    assert evaluate.lost(allowed, record) == []


def test_nothing_is_lost_where_nothing_was_recorded(evaluated: Mapping[str, Any]) -> None:
    """By an earlier release of the collection, or because there was no rollout."""
    for record in (None, {"before": {}}):
        assert evaluate.lost({**evaluated, "services": "all"}, record) == []


def test_the_state_out_of_service_is_recorded_before_the_trial_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(booting, "ROOT", tmp_path)
    monkeypatch.setattr(snapshot, "watchdog", lambda: None)
    states = iter([HAS, HAD])
    monkeypatch.setattr(services, "read", lambda: next(states))
    tree = Tree(tmp_path, monkeypatch)
    host = tree.begin(NEW)
    host.hold(600)
    tree.add(NEW)
    tree.phase(records.INSTALLED)
    trial = Trial(NEW, 30, 60, [], 600, check_drivers=False)
    for _ in range(2):
        assert host.try_once(trial)
        assert (tree.store.read() or {})["while_drained"] == HAS, "a run that continues may find the host in service"


def test_a_finished_rollout_that_begins_again_is_about_what_the_host_offers_now() -> None:
    target = {"release": "1", "uname": "1", "packages": ["core-1"]}
    old = records.begin(None, "r1", target, {"uname": "0", "services": HAD})
    halfway = records.begin({**old, "phase": records.BOOTED}, "r2", target, {"uname": "1", "services": HAS})
    assert halfway["before"] == {"uname": "0", "services": HAD}
    again = records.begin({**old, "phase": records.DONE}, "r2", target, {"uname": "1", "services": HAS})
    assert again["before"] == {"uname": "0", "services": HAS}


@pytest.mark.full
def test_a_rollout_compares_before_the_return_and_after_the_soak(ansible: Mapping[str, str], tmp_path: Path) -> None:
    host = Host(tmp_path / "h1")
    given = {"thp_gate_services_allowed": ["mount /srv"], "thp_gate_services_timeout": 7}
    played = play(ansible, tmp_path, {"h1": host.variables(**given)}, "rollout")
    assert played.results() == {"h1": "done"}
    calls = host.calls("evaluate")
    assert [call["services"] for call in calls] == ["drained", "all"]
    for call in calls:
        assert (call["services_allowed"], call["services_timeout"]) == (["mount /srv"], 7)


def test_a_pattern_that_is_none_refuses_the_host(ansible: Mapping[str, str], tmp_path: Path) -> None:
    """The gate would find it only on the new kernel."""
    host = Host(tmp_path / "h1")
    played = play(ansible, tmp_path, {"h1": host.variables(thp_gate_services_allowed=["("])}, "rollout")
    assert played.results() == {"h1": "refused"}
    assert "thp_gate_services_allowed take regular expressions; correct (: missing )" in played.failed("h1")["why"]
    assert host.record == {}


def test_a_pattern_that_is_none_is_named() -> None:
    assert fleet.unusable(["mount /srv/.*", "(", "a"]) == ["(: missing ), unterminated subpattern at position 0"]
    with pytest.raises(Problem, match="differences to allow is not a regular expression"):
        services.difference(HAD, HAS, ["("])


def test_what_is_read_is_what_the_schema_says() -> None:
    schema = json.loads((collection.SOURCE / "schemas" / "record.schema.json").read_text())["$defs"]["services"]
    jsonschema.validate(services.read(), schema)
